import type { Connection } from 'mysql2/promise';

/** The least that a durable write can take on this server: one row, its own transaction, on a connection of its own. */
export async function bareTransactions(
  connection: Connection,
  ratePerSecond: number,
  seconds: number,
): Promise<{ p50: number; p99: number }> {
  await connection.query(
    'CREATE TABLE IF NOT EXISTS bench_one_row (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB',
  );
  const took: number[] = [];
  const started = performance.now();
  for (let n = 0; n < ratePerSecond * seconds; n += 1) {
    const due = started + (n / ratePerSecond) * 1000;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    const before = performance.now();
    await connection.query('INSERT INTO bench_one_row (n) VALUES (?)', [n]);
    took.push(performance.now() - before);
  }
  took.sort((a, b) => a - b);
  const at = (part: number): number => Number((took[Math.floor(took.length * part)] ?? 0).toFixed(2));
  await connection.query('DROP TABLE bench_one_row');
  return { p50: at(0.5), p99: at(0.99) };
}
