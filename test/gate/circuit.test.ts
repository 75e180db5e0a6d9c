import { assert } from 'chai';
import { Circuit } from '../../src/gate/circuit.ts';

describe('the circuit breaker', () => {
  let told: string[];
  let circuit: Circuit;
  beforeEach(() => {
    told = [];
    circuit = new Circuit({
      opened: (reason) => void told.push(`opened: ${reason}`),
      closed: (openMs) => void told.push(openMs >= 0 ? 'closed' : 'negative'),
    });
  });

  it('opens after three failures in a row, and tells each change once', () => {
    circuit.failed(performance.now(), 'a');
    circuit.failed(performance.now(), 'b');
    assert.isFalse(circuit.isOpen);
    for (let more = 0; more < 5; more += 1) circuit.failed(performance.now(), 'c');
    circuit.open('d');
    assert.isTrue(circuit.isOpen);
    circuit.close();
    circuit.close();
    assert.isFalse(circuit.isOpen);
    assert.deepEqual(told, ['opened: c', 'closed']);
  });

  it('a success between starts the count again', () => {
    for (let round = 0; round < 5; round += 1) {
      circuit.failed(performance.now(), 'a');
      circuit.failed(performance.now(), 'a');
      circuit.succeeded();
    }
    assert.isFalse(circuit.isOpen);
    assert.isEmpty(told);
  });

  it('failures of questions that were under way together are one failure', () => {
    const startedAt = performance.now();
    for (let together = 0; together < 100; together += 1) circuit.failed(startedAt, 'slow');
    assert.isFalse(circuit.isOpen);
    circuit.failed(performance.now(), 'slow');
    circuit.failed(performance.now(), 'slow');
    assert.isTrue(circuit.isOpen);
  });
});
