import type { Row } from './report.ts';
import * as ways from './ways.ts';

/** What the service claims of itself, and what this run says to it. A line for each. */
export function targets(rows: readonly Row[], bareP99: number | null, isMySql: boolean): string[] {
  const find = (group: string, way: ways.Way): Row | undefined =>
    rows.find((row) => row.group.startsWith(group) && row.way === way.name);
  const lines: string[] = [];
  const ratio = (what: string, own: Row | undefined, other: Row | undefined, aim: number): void => {
    if (own === undefined || other === undefined) return;
    lines.push(line(what, own.perSecond.median / other.perSecond.median, aim, '×', (a, b) => a >= b));
  };
  const hot = find('hot packet, 256', ways.service);
  ratio(
    'hot packet against Redis first on express',
    hot,
    find('hot packet, 256', ways.redisOnExpress),
    isMySql ? 2 : 3,
  );
  ratio(
    'hot packet against Redis first on the fast lane',
    hot,
    find('hot packet, 256', ways.redisOnLane),
    isMySql ? 0.6 : 0.9,
  );
  ratio(
    'hot packet against express with a constant answer',
    hot,
    find('hot packet, 256', ways.expressConstant),
    isMySql ? 1.6 : 2.5,
  );
  ratio(
    'sold-out packet against the fast lane with a constant answer',
    find('sold-out', ways.service),
    find('hot packet, 256', ways.laneConstant),
    0.9,
  );
  ratio(
    'packets of 1,000 shares against one of 1,000,000',
    find('packets of 1,000', ways.service),
    find('packet of 1,000,000', ways.service),
    0.9,
  );
  const fixed = find('hot packet, 2,000', ways.service);
  if (fixed !== undefined)
    lines.push(line('p99 at 2,000 requests/s', p99Of(fixed), 50, 'ms', (a, b) => a < b));
  const idle = find('idle', ways.service);
  if (idle !== undefined && bareP99 !== null)
    lines.push(
      line(
        'p99 of an idle packet above a bare transaction’s',
        p99Of(idle) - bareP99,
        3,
        'ms',
        (a, b) => a <= b,
      ),
    );
  return lines;
}

function p99Of({ p99 }: Row): number {
  return typeof p99 === 'number' ? p99 : p99.median;
}

function line(
  what: string,
  value: number,
  aim: number,
  unit: string,
  isReached: (value: number, aim: number) => boolean,
): string {
  return `${isReached(value, aim) ? 'reached    ' : 'NOT REACHED'}  ${what}: ${value.toFixed(2)} ${unit} (aim ${aim} ${unit})`;
}
