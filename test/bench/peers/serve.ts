import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Serves on PORT, prints the port as a JSON line, and ends on SIGTERM: then `close` runs and the process ends. */
export async function serve(
  app: RequestListener,
  close: () => Promise<void> = async () => {},
): Promise<void> {
  const server = createServer(app);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // As many as wait to be accepted may wait at the service, too.
    server.listen({ port: Number(process.env['PORT'] ?? 0), host: '127.0.0.1', backlog: 1_024 }, resolve);
  });
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
  process.once('SIGTERM', () => {
    server.close(() => void close().then(() => process.exit(0)));
    server.closeAllConnections();
  });
}
