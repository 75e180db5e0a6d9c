import type { IncomingMessage } from 'node:http';
import { Refusal } from '../refusal.ts';

/** The caller went away before its request had arrived: there is nobody to answer. */
export class RequestAbortedError extends Error {
  constructor() {
    super('the caller went away');
    this.name = 'RequestAbortedError';
  }
}

/**
 * Reads a body into memory, at most `limitBytes` of it. Refuses: PAYLOAD_TOO_LARGE, as soon as it is known to be; what
 * the caller still sends is then thrown away, so that it can finish sending and read the answer (how long it may take
 * is the server's request timeout). Throws RequestAbortedError.
 *
 * The body reader of express is not used, because it answers 413 only after the whole body has come, and before
 * anybody has asked who is calling.
 */
export async function readBody(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (length === undefined && encoding === undefined) return Buffer.alloc(0);
  if (request.destroyed) throw new RequestAbortedError();
  if (Number(length ?? 0) > limitBytes) {
    request.resume();
    throw tooLarge(limitBytes);
  }
  return await collect(request, limitBytes);
}

async function collect(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = (): void => {
      request.off('data', take).off('end', finish).off('error', abort).off('close', abort);
    };
    const take = (chunk: Buffer): void => {
      bytes += chunk.length;
      chunks.push(chunk);
      if (bytes <= limitBytes) return;
      settle();
      request.resume();
      reject(tooLarge(limitBytes));
    };
    const finish = (): void => {
      settle();
      const [first] = chunks;
      resolve(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks));
    };
    const abort = (): void => {
      settle();
      reject(new RequestAbortedError());
    };
    request.on('data', take).once('end', finish).once('error', abort).once('close', abort);
  });
}

function tooLarge(limitBytes: number): Refusal {
  return new Refusal('PAYLOAD_TOO_LARGE', { detail: `The body may have at most ${limitBytes} bytes.` });
}
