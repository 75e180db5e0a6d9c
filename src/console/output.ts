/** Findings are no failure of the program: exit code 1, and the report has been printed. */
export class FindingsError extends Error {}

/** Rows as an aligned table: numbers to the right. Wide characters count as two columns. */
export function table(headings: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cells = [headings, ...rows].map((row) => row.map(String));
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => widthOf(row[column] ?? ''))));
  const numeric = headings.map(
    (_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => {
        const space = ' '.repeat((widths[column] ?? 0) - widthOf(cell));
        return numeric[column] === true ? space + cell : cell + space;
      })
      .join('  ')
      .trimEnd();
  const rule = widths.map((width) => '─'.repeat(width)).join('  ');
  const [head = [], ...body] = cells;
  return [line(head), rule, ...body.map(line)].join('\n');
}

function widthOf(text: string): number {
  return Array.from(text).reduce(
    (width, char) =>
      width +
      (/[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]/.test(char) ? 2 : 1),
    0,
  );
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Progress and notes go to standard error, so that standard output stays a result. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
