import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A TCP proxy before a server that tests may not stop: it holds the traffic, or cuts it and refuses more. */
export class Valve {
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  #port = 0;
  #held = false;

  private constructor(target: string) {
    this.#target = new URL(target);
  }

  static async before(target: string): Promise<Valve> {
    const valve = new Valve(target);
    await valve.open();
    return valve;
  }

  get url(): string {
    const through = new URL(this.#target.href);
    through.hostname = '127.0.0.1';
    through.port = String(this.#port);
    return through.href;
  }

  /** Connections stay, and nothing goes through. */
  hold(): void {
    this.#held = true;
    for (const socket of this.#sockets) socket.pause();
  }

  release(): void {
    this.#held = false;
    for (const socket of this.#sockets) socket.resume();
  }

  /** Cuts every connection, and refuses new ones. */
  async shut(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(server, 'close');
  }

  /** At the same port as before. */
  async open(): Promise<void> {
    const server = createServer((client) => this.#join(client));
    this.#server = server;
    server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#port = (server.address() as AddressInfo).port;
  }

  #join(client: Socket): void {
    const upstream = connect(Number(this.#target.port || '6379'), this.#target.hostname);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(from);
      from.setNoDelay(true);
      from.on('error', () => {});
      from.on('data', (data) => void (to.writable && to.write(data)));
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      if (this.#held) from.pause();
    }
  }
}
