import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy in front of the database: adds latency, or cuts a connection at a chosen moment. */
export class Proxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Looks at what a client sends; returning true forwards it and then cuts the connection before any answer. */
  cutAfter: (data: Buffer) => boolean = () => false;
  cuts = 0;
  /** Instead of cutting, leaves the connection open and answers nothing more on it. */
  silent = false;

  private constructor(target: URL, latencyMs: number) {
    this.#server = createServer((client) => {
      const upstream = connect(Number(target.port), target.hostname);
      let muted = false;
      for (const socket of [client, upstream]) {
        socket.setNoDelay(true);
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          client.destroy();
          // What was sent must still arrive.
          upstream.end();
        });
      }
      const later = (run: () => void): void =>
        void (latencyMs === 0 ? run() : setTimeout(run, latencyMs / 2));
      client.on('data', (data) => {
        if (this.cutAfter(data)) {
          muted = true;
          this.cuts += 1;
          upstream.write(data, () => {
            if (!this.silent) setTimeout(() => client.destroy(), 20);
          });
          return;
        }
        later(() => void (upstream.writable && upstream.write(data)));
      });
      upstream.on('data', (data) => {
        if (!muted) later(() => void (client.writable && client.write(data)));
      });
    });
  }

  static async before(url: string, latencyMs = 0): Promise<{ proxy: Proxy; url: string }> {
    const proxy = new Proxy(new URL(url), latencyMs);
    await new Promise<void>((resolve) => {
      proxy.#server.listen(0, '127.0.0.1', resolve);
    });
    const address = proxy.#server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    const through = new URL(url);
    through.hostname = '127.0.0.1';
    through.port = String(address.port);
    return { proxy, url: through.href };
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }
}
