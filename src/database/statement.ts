/**
 * Every SQL statement has a name and one home (the `sql.ts` of its feature). The name leads the statement as a
 * comment, so it shows in the server's process list, and it labels the metric and the log line.
 */
export interface Statement<Row = never> {
  readonly name: string;
  readonly text: string;
  /** Carries the row type only; never set. */
  readonly row?: Row;
}

/** Declares a named statement; `Row` is the shape that the driver returns for it. */
export function statement<Row = never>(name: string, text: string): Statement<Row> {
  return { name, text: `/* ${name} */ ${text}` };
}

/**
 * A JSON array of texts, bound as one value, as a table with one column: to join with, each text looked up
 * by key. The column compares byte for byte, as the ids of our tables do, or their keys could not be used.
 */
export function jsonList(column: string, alias: string): string {
  return `JSON_TABLE(?, '$[*]' COLUMNS (${column} VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS ${alias}`;
}

/** What may be bound. `undefined` is left out on purpose: the driver would turn it into NULL silently. */
export type Bound = string | number | bigint | boolean | Date | null | Buffer | readonly Bound[];
