import { assert } from 'chai';
import { plot, type ResultRow } from './plot.ts';

/** Checks of the chart. node --import tsx test/bench/check-plot.ts > chart.svg */
const row = (group: string, way: string, median: number, p99: number): ResultRow => ({
  group,
  way,
  engine: 'MySQL 9.7.4',
  perSecond: { median, lowest: median * 0.93, highest: median * 1.06 },
  p50: p99 / 3,
  p99,
  p999: p99 * 2,
  cpu: { server: 1, database: null },
});
const rows = [
  row('hot packet, 256 connections', 'this service', 11_230, 41),
  row('hot packet, 256 connections', 'Redis first on the fast lane, appendfsync always', 14_904.4, 33),
  row('hot packet, 256 connections', 'Redis first on express', 4_905, 98),
  row('hot packet, 256 connections', 'one transaction per grab', 774, 612),
  row('1,000 packets <at once> & "all"', 'this service', 6_120, 70),
  row('1,000 packets <at once> & "all"', 'express, constant answer', 6_904, 7.25),
];
const header = {
  title: 'Grabs over HTTP',
  machine: '2 × a processor of some kind',
  node: 'Node 20.20',
  durability: 'every commit flushed, binary log synced',
  rounds: 5,
};

const svg = plot({ header, rows });
for (const { perSecond, way } of rows) {
  assert.include(svg, Math.round(perSecond.median).toLocaleString('en-US'));
  for (const word of way.split(' ')) assert.include(svg, word);
}
assert.include(svg, '1,000 packets &lt;at once&gt; &amp; &quot;all&quot;');
assert.equal(svg.match(/<rect /g)?.length, rows.length + 1);
// Bars are in proportion to the medians, and nothing lies outside of the picture.
const widths = [...svg.matchAll(/<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="24"/g)].map((match) =>
  Number(match[1]),
);
for (const [index, { perSecond }] of rows.entries())
  assert.closeTo((widths[index] ?? 0) / (widths[0] ?? 1), perSecond.median / 11_230, 0.01);
for (const [, x = '', y = ''] of svg.matchAll(/ x="([\d.]+)" y="([\d.]+)"/g)) {
  assert.isAtMost(Number(x), 860);
  assert.isAtMost(Number(y), Number(/height="(\d+)" role/.exec(svg)?.[1]));
}
// Every element is closed, in order.
const open: string[] = [];
for (const [, closing, name = '', own] of svg.matchAll(/<(\/?)([a-z]+)[^<>]*?(\/?)>/g)) {
  if (closing === '/') assert.equal(open.pop(), name);
  else if (own !== '/') open.push(name);
}
assert.isEmpty(open);
assert.throws(() => plot({ header, rows: [] }), 'no results');
process.stdout.write(svg);
