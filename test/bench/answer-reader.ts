/**
 * Reads HTTP/1.1 answers as they come in, one at a time: the status, and where the answer ends. The usual case, one
 * answer whole in one chunk, costs a search for the end of the head and a look at one header.
 */
export class AnswerReader {
  readonly #keepBody: () => boolean;
  /** What came of an answer that is not whole yet. */
  #pending: Buffer | null = null;

  /** `keepBody` is asked for each answer whether its body is wanted as text. */
  constructor(keepBody: () => boolean) {
    this.#keepBody = keepBody;
  }

  /** Forgets what came of an unfinished answer: the connection is a new one. */
  reset(): void {
    this.#pending = null;
  }

  /**
   * Takes what came; returns the answer when it is whole, null when more must come. Throws when it is no answer,
   * or when bytes follow it that nobody asked for. The chunk is not kept: the caller may use its memory again.
   */
  read(chunk: Buffer): { status: number; close: boolean; body: string | null } | null {
    const bytes = this.#pending === null ? chunk : Buffer.concat([this.#pending, chunk]);
    const answer = this.#parse(bytes);
    this.#pending = answer !== null ? null : this.#pending === null ? Buffer.from(chunk) : bytes;
    return answer;
  }

  #parse(bytes: Buffer): { status: number; close: boolean; body: string | null } | null {
    const headEnd = bytes.indexOf('\r\n\r\n');
    if (headEnd === -1) return null;
    const head = bytes.toString('latin1', 0, headEnd);
    const status = Number(head.slice(9, 12));
    if (!head.startsWith('HTTP/1.') || !(status >= 200 && status <= 599)) throw new Error('UNREADABLE');
    const start = headEnd + 4;
    const length = contentLength(head);
    const chunks = length === null && status !== 204 && status !== 304 ? chunksOf(head, bytes, start) : [];
    if (chunks === null) return null;
    const end = chunks.at(-1)?.end ?? start + (length ?? 0);
    if (bytes.length < end) return null;
    if (bytes.length > end) throw new Error('UNASKED_BYTES');
    const close = /\r\nconnection: *close/i.test(head);
    if (!this.#keepBody()) return { status, close, body: null };
    const body =
      length !== null
        ? bytes.toString('utf8', start, end)
        : Buffer.concat(chunks.map(({ from, to }) => bytes.subarray(from, to))).toString();
    return { status, close, body };
  }
}

function contentLength(head: string): number | null {
  const found = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  return found === undefined ? null : Number(found);
}

/** The chunks of a chunked body, or null while the last has not come whole; `end` is where the next begins. */
function chunksOf(
  head: string,
  bytes: Buffer,
  start: number,
): { from: number; to: number; end: number }[] | null {
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) throw new Error('NO_LENGTH');
  const chunks = [];
  for (let at = start; ;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return null;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) throw new Error('UNREADABLE');
    const from = lineEnd + 2;
    const to = from + size;
    // Trailers are not looked for: no server here sends any.
    const end = to + 2;
    if (bytes.length < end) return null;
    chunks.push({ from, to, end });
    if (size === 0) return chunks;
    at = end;
  }
}
