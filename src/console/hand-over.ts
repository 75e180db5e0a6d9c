import type { Worker } from 'node:cluster';

interface Handle {
  close: () => void;
}

/** What a worker says to Node's cluster in the parent, as far as it matters here. */
interface Said {
  act?: unknown;
  ack?: unknown;
  accepted?: unknown;
}

/**
 * The parent accepts connections and hands each to a worker. Node's cluster forgets one in two cases: it was on the way
 * to a worker that died, or was declined when the last worker had stopped listening. Then the parent keeps it open,
 * nobody answers it, and its client waits for ever. So the connection that is on the way to a worker (there is one at
 * most) is remembered here until the worker has confirmed it, and closed in those cases: the client sees a broken
 * connection, and repeats.
 *
 * This looks at how Node's cluster talks to its workers (`newconn`, `close`, `seq`, `ack`, `accepted`), which no
 * documentation fixes. Tests hold it; where it changes, nothing is remembered and nothing closed.
 */
export class HandOver {
  readonly #listening = new Set<Worker>();

  watch(worker: Worker): void {
    const child = worker.process;
    const send = child.send.bind(child) as (...args: unknown[]) => boolean;
    let onTheWay: { handle: Handle; seq: unknown } | null = null;
    child.send = (...args: unknown[]): boolean => {
      const [message, handle] = args;
      if (isConnection(message) && isHandle(handle)) onTheWay = { handle, seq: message.seq };
      return send(...args);
    };
    worker.on('listening', () => this.#listening.add(worker));
    // Node's own listener comes first: it has given a declined connection to the next worker by now, if there is one.
    child.on('internalMessage', ({ act, ack, accepted }: Said) => {
      if (act === 'close') this.#listening.delete(worker);
      if (onTheWay === null || ack !== onTheWay.seq) return;
      if (accepted === false && this.#listening.size === 0) onTheWay.handle.close();
      onTheWay = null;
    });
    // Not at its disconnect, which never comes while something is on the way. What it still said is read first.
    child.once('exit', () => {
      this.#listening.delete(worker);
      setImmediate(() => onTheWay?.handle.close());
    });
  }
}

function isConnection(message: unknown): message is { seq: unknown } {
  return typeof message === 'object' && message !== null && 'act' in message && message.act === 'newconn';
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'close' in value && typeof value.close === 'function';
}
