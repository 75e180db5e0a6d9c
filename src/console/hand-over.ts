import type { Worker } from 'node:cluster';

interface Handle {
  close: () => void;
}

/**
 * The parent accepts connections and hands each to a worker. When a worker dies while one is on the way, Node's
 * cluster forgets that one: the parent keeps it open, nobody answers it, and its client waits for ever. So the
 * connection that is on the way is remembered here until the worker has confirmed it, and closed when the worker is
 * gone: the client sees a broken connection, and repeats. This looks at how Node's cluster talks to its workers
 * (`newconn`, `seq`, `ack`), which no documentation fixes; a test holds it, and where it changes nothing is remembered.
 */
export function closeWhatIsOnTheWay(worker: Worker): void {
  const child = worker.process;
  const send = child.send.bind(child) as (...args: unknown[]) => boolean;
  let onTheWay: { handle: Handle; seq: unknown } | null = null;
  child.send = (...args: unknown[]): boolean => {
    const [message, handle] = args;
    if (isConnection(message) && isHandle(handle)) onTheWay = { handle, seq: message.seq };
    return send(...args);
  };
  child.on('internalMessage', (message: { ack?: unknown } | null) => {
    // Taken, or declined: then Node hands it to another worker.
    if (onTheWay !== null && message?.ack === onTheWay.seq) onTheWay = null;
  });
  // Not at its disconnect, which never comes while something is on the way. What it still said is read first.
  child.once('exit', () => setImmediate(() => onTheWay?.handle.close()));
}

function isConnection(message: unknown): message is { seq: unknown } {
  return typeof message === 'object' && message !== null && 'act' in message && message.act === 'newconn';
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'close' in value && typeof value.close === 'function';
}
