// Mathematics by its short names, and maps of lists and of counts.
export const { max, min, floor, abs, round, sqrt, ceil } = Math, finite = Number.isFinite;
export const put = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
export function tally(list) {
  const found = new Map();
  for (const x of list) found.set(x, (found.get(x) ?? 0) + 1);
  return found;
}
