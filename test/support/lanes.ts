/** Who serves the hot routes. Both must answer alike, so the suites of routes run through each. */
export const lanes = ['express', 'fast lane'] as const;
export type Lane = (typeof lanes)[number];

/** A `describe` for each lane. */
export function eachLane(title: string, suite: (lane: Lane) => void): void {
  for (const lane of lanes) describe(`${title}, ${lane}`, () => suite(lane));
}
