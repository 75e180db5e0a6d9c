import {
  createServer,
  type IncomingMessage,
  STATUS_CODES,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

export interface Listening {
  /** For example `http://127.0.0.1:8080`. */
  address: string;
  /** Takes no more connections, lets running requests end, and cuts what is left at the deadline. */
  close: (deadlineMs: number) => Promise<void>;
}

const limits = {
  /** A whole request, body included, must have come within this time. */
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  /** Longer than the usual 60 s of the proxies in front, so that it is they who end an idle connection. */
  keepAliveTimeout: 65_000,
  maxHeaderSize: 16_384,
  connectionsCheckingInterval: 5_000,
};
const backlog = 1_024;

/** Serves until `close`. Rejects when the address cannot be had. */
export async function listen(app: RequestListener, host: string, port: number): Promise<Listening> {
  const server = createServer(limits);
  /** The answers under way, each with its request. */
  const running = new Map<ServerResponse, IncomingMessage>();
  /** Connections that have not sent a request yet. Node does not count them as idle, and a browser opens such in advance. */
  const silent = new Set<Socket>();
  let closing = false;
  server.on('connection', (socket) => {
    silent.add(socket);
    socket.once('close', () => silent.delete(socket));
  });
  server.on('request', (request, response) => {
    silent.delete(request.socket);
    running.set(response, request);
    response.once('close', () => running.delete(response));
    if (closing) response.setHeader('connection', 'close');
  });
  server.on('request', app);
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    // A request whose body has not come whole has done nothing yet; the others may have.
    const underWay = [...running]
      .filter(([, request]) => request.socket === socket && request.complete)
      .map(([response]) => response);
    if (underWay.length === 0 || error.code === 'ECONNRESET') answerUnreadable(error, socket);
    else endAfter(underWay, socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host, backlog }, resolve);
  });
  return {
    address: addressOf(server, host),
    close: async (deadlineMs) => {
      closing = true;
      // A connection that was busy when the server closed would else stay open, idle, until its own timeout.
      for (const response of running.keys())
        if (!response.headersSent) response.setHeader('connection', 'close');
      const cut = setTimeout(() => server.closeAllConnections(), deadlineMs);
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        for (const socket of silent) socket.destroy();
      });
      clearTimeout(cut);
    },
  };
}

function addressOf(server: Server, host: string): string {
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the server listens on no port');
  return `http://${host.includes(':') ? `[${host}]` : host}:${bound.port}`;
}

/**
 * What follows these requests on their connection is no HTTP, but they are: their answers must come, for what they
 * did is committed. A 400 in their place would say that nothing was written.
 */
function endAfter(underWay: readonly ServerResponse[], socket: Duplex): void {
  let left = underWay.length;
  for (const response of underWay) {
    response.once('close', () => {
      left -= 1;
      if (left === 0) socket.end();
    });
  }
}

const unreadableStatus: Record<string, number> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 };

/** What is no HTTP never reaches the app; it is answered here, in the same form. */
function answerUnreadable(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = unreadableStatus[error.code ?? ''] ?? 400;
  const title = STATUS_CODES[status] ?? 'Bad Request';
  const body = JSON.stringify({ type: 'about:blank', title, status, code: 'INVALID_REQUEST' });
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\nConnection: close\r\nContent-Type: application/problem+json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
