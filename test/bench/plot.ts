import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Draws a benchmark's results as an SVG bar chart for a README: a group for each scenario, a bar for each way, the
 * median as the bar, a whisker from the lowest round to the highest. One scale for all groups.
 *
 *   node --import tsx test/bench/plot.ts results.json chart.svg
 */
export interface Results {
  /** `title` and `unit` are shown as such, all else as facts below the title. */
  header: { title?: string; unit?: string; [fact: string]: unknown };
  rows: ResultRow[];
}

export interface ResultRow {
  /** The scenario, such as "hot packet, 256 connections". */
  group: string;
  way: string;
  engine: string;
  perSecond: Spread;
  /** Milliseconds; a spread over the rounds, or one number. */
  p50: number | Spread;
  p99: number | Spread;
  p999: number | Spread;
  /** CPU seconds by process, as measured. */
  cpu: Record<string, number | null>;
}

export interface Spread {
  median: number;
  lowest: number;
  highest: number;
}

const width = 960;
const margin = 24;
const labelWidth = 268;
/** Right of the longest bar: room for its value. */
const valueWidth = 176;
const barHeight = 24;
const rowHeight = 40;
const plotLeft = margin + labelWidth + 12;
const plotWidth = width - margin - valueWidth - plotLeft;
const font = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";
/** Colours that people with any kind of colour vision tell apart, on white; the first way is the one in focus. */
const colours = ['#c8321f', '#2f6db5', '#5b9bd5', '#7b8794', '#8a6bb1', '#4c9a7a', '#b7842a'];

/** The chart as SVG text. Throws when there is nothing to draw. */
export function plot({ header, rows }: Results): string {
  if (rows.length === 0) throw new Error('there are no results to draw');
  const title = header.title ?? 'Benchmark';
  const unit = header.unit ?? 'grabs per second';
  const ticks = ticksTo(Math.max(...rows.map(({ perSecond }) => perSecond.highest)));
  const scale = (value: number): number => (value / (ticks.at(-1) ?? 1)) * plotWidth;
  const colourOf = colourPicker(rows);
  const severalEngines = new Set(rows.map(({ engine }) => engine)).size > 1;
  const facts = wrap(factsOf(header, rows, severalEngines), 136);

  let y = margin + 20;
  const head = [text(margin, y, title, 'title')];
  for (const line of facts) head.push(text(margin, (y += 20), line, 'fact'));
  y += 16;
  const top = y;
  const bars: string[] = [];
  for (const group of new Set(rows.map((row) => row.group))) {
    bars.push(text(margin, (y += 26), group, 'group'));
    y += 10;
    for (const row of rows.filter((row) => row.group === group)) {
      bars.push(bar(row, y, scale, colourOf(row.way), severalEngines));
      y += rowHeight;
    }
    y += 4;
  }
  const bottom = y;
  const foot = [text(plotLeft, bottom + 40, `${unit}: median; whisker: lowest to highest round`, 'fact')];
  const height = bottom + 40 + margin;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="t d">`,
    `<title id="t">${escape(title)}</title>`,
    `<desc id="d">${escape(descriptionOf(rows, unit))}</desc>`,
    style(),
    // A ground of its own, so that it reads the same on a dark page.
    `<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" fill="#ffffff" stroke="#d0d7de"/>`,
    ...head,
    ...ticks.map((tick) => grid(tick, scale, top, bottom)),
    ...bars,
    ...foot,
    '</svg>',
    '',
  ].join('\n');
}

function style(): string {
  return `<style>
text { font-family: ${font}; fill: #1f2328; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }
.title { font-size: 20px; font-weight: 600; }
.fact { font-size: 13px; fill: #57606a; }
.group { font-size: 15px; font-weight: 600; }
.way { font-size: 14px; text-anchor: end; }
.value { font-size: 14px; font-weight: 600; }
.side { font-size: 13px; font-weight: 400; fill: #57606a; }
.tick { font-size: 12px; fill: #57606a; text-anchor: middle; }
</style>`;
}

function bar(
  { way, engine, perSecond, p99 }: ResultRow,
  y: number,
  scale: (value: number) => number,
  colour: string,
  withEngine: boolean,
): string {
  const { median, lowest, highest } = perSecond;
  const middle = y + rowHeight / 2;
  const [from, to] = [plotLeft + scale(lowest), plotLeft + scale(highest)];
  const lines = wrap([withEngine ? `${way}, ${engine}` : way], 38);
  const firstLine = middle + 5 - (lines.length - 1) * 8;
  const end = Math.max(plotLeft + scale(median), to) + 8;
  const value = `${whole(median)}<tspan class="side">  p99 ${short(middleOf(p99))} ms</tspan>`;
  const path = `M${fixed(from)} ${middle}H${fixed(to)}M${fixed(from)} ${middle - 5}v10M${fixed(to)} ${middle - 5}v10`;
  return [
    ...lines.map((line, index) => text(plotLeft - 10, firstLine + index * 16, line, 'way')),
    `<rect x="${plotLeft}" y="${middle - barHeight / 2}" width="${fixed(Math.max(1, scale(median)))}" height="${barHeight}" rx="2" fill="${colour}"/>`,
    // Dark with a light edge: seen on the bar and beside it.
    `<path d="${path}" stroke="#ffffff" stroke-width="4" stroke-opacity="0.7" fill="none"/>`,
    `<path d="${path}" stroke="#1f2328" stroke-width="1.5" fill="none"/>`,
    `<text x="${fixed(end)}" y="${middle + 5}" class="value" xml:space="preserve">${value}</text>`,
  ].join('\n');
}

function grid(tick: number, scale: (value: number) => number, top: number, bottom: number): string {
  const x = fixed(plotLeft + scale(tick));
  return [
    `<path d="M${x} ${top}V${bottom}" stroke="${tick === 0 ? '#8c959f' : '#e3e7eb'}" stroke-width="1"/>`,
    text(Number(x), bottom + 17, whole(tick), 'tick'),
  ].join('\n');
}

/** From 0 in four to eight round steps to at least `largest`. */
function ticksTo(largest: number): number[] {
  const rough = Math.max(largest, 1) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const count = Math.ceil(largest / step);
  return Array.from({ length: Math.max(1, count) + 1 }, (_, index) => index * step);
}

function colourPicker(rows: readonly ResultRow[]): (way: string) => string {
  const ways = [...new Set(rows.map(({ way }) => way))];
  return (way) => colours[ways.indexOf(way) % colours.length] ?? '#7b8794';
}

function factsOf(header: Results['header'], rows: readonly ResultRow[], severalEngines: boolean): string[] {
  const facts = Object.entries(header)
    .filter(([name]) => name !== 'title' && name !== 'unit')
    .map(([name, fact]) => (typeof fact === 'string' ? fact : `${name} ${JSON.stringify(fact)}`));
  return severalEngines || rows[0] === undefined ? facts : [...facts, rows[0].engine];
}

function descriptionOf(rows: readonly ResultRow[], unit: string): string {
  return rows
    .map(
      ({ group, way, engine, perSecond }) =>
        `${group}: ${way} (${engine}) ${whole(perSecond.median)} ${unit}.`,
    )
    .join(' ');
}

/** Words, or facts separated by dots, in lines of about so many characters. */
function wrap(parts: readonly string[], characters: number): string[] {
  const lines: string[] = [];
  const separator = parts.length > 1 ? ' · ' : ' ';
  for (const part of parts.length > 1 ? parts : (parts[0] ?? '').split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + separator.length + part.length <= characters)
      lines[lines.length - 1] = `${last}${separator}${part}`;
    else lines.push(part);
  }
  return lines;
}

function middleOf(value: number | Spread): number {
  return typeof value === 'number' ? value : value.median;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

function short(ms: number): string {
  return ms >= 10 ? whole(ms) : ms.toFixed(1);
}

function fixed(value: number): string {
  return value.toFixed(1);
}

function text(x: number, y: number, content: string, kind: string): string {
  return `<text x="${x}" y="${y}" class="${kind}">${escape(content)}</text>`;
}

function escape(content: string): string {
  return content
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

const [, program, from, to] = process.argv;
if (program === fileURLToPath(import.meta.url)) {
  if (from === undefined || to === undefined) {
    console.error('Usage: node --import tsx test/bench/plot.ts RESULTS.json CHART.svg');
    process.exit(2);
  }
  writeFileSync(to, plot(JSON.parse(readFileSync(from, 'utf8')) as Results));
}
