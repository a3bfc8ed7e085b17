// Coordinates from rows, in integers: the twin of coords.py and routes.py, with equal numbers.
// The rows (layers and their order) come with the page; nothing here ever reorders.
import { abs, floor, max, min, put, tally } from "./math.js";

export const NODE_W = 168, BOX_W = 176, BOX_H = 54, PORT = 14, LANE = 30;
export const PAD = 24, TITLE = 34;
const SIDE = 30, APART = 40, CHIP_W = 108, CHIP_H = 29;
const RIGHT = { along: 132, bare: 64, across: 72, lane: 36, bow: 16 }, DOWN = { along: 80, bare: 56, across: 44, lane: 46, bow: 56 };
export const isNode = (it) => typeof it === "number", isBox = (it) => !isNode(it) && it[0] === "s";

/** Where the rows of cells of a card begin, one an output, and where the last one ends. */
export function cellTops(node) {
  const tops = [node.outputs || node.shape.length ? 44 : 42];
  for (const { shape } of (node.outputs ?? [node]).slice(0, 4)) tops.push(tops.at(-1) + (shape.length ? 64 : 50));
  return tops;
}
export const cardHeight = (node) => cellTops(node).at(-1) + (node.outputs?.length > 4 ? 20 : 0);

/** Boxes [x, y, w, h] by item, and lines with their paths and the places of chips. open: a Set of scopes, or null for all. */
export function place(t, layout, open, down = false) {
  const parent = new Map(t.scopes?.map((s) => [s.id, s.parent ?? 0])), shown = new Set(), rooms = new Map();
  for (const s of Object.keys(layout).map(Number)) if (s === 0 || (shown.has(parent.get(s) ?? 0) && (!open || open.has(s)))) shown.add(s);
  for (const s of [...shown].reverse()) rooms.set(s, room(t, layout[s], rooms, down));
  const boxes = new Map(), lines = [], corner = new Map([[0, [0, 0]]]);
  for (const s of shown) {
    const r = rooms.get(s), at = corner.get(s);
    r.items.forEach((it, i) => {
      const [long, wide] = r.size[i], k = r.row[i], c = r.centre[i] - (wide >> 1), m = r.start[k] + ((r.end[k] - r.start[k] - long) >> 1);
      const box = down ? [at[0] + c, at[1] + m, wide, long] : [at[0] + m, at[1] + c, long, wide];
      boxes.set(isNode(it) || isBox(it) ? it : `${it}/${s}`, box);
      if (!isBox(it)) return;
      const child = rooms.get(+it.slice(1)), inner = child ? (down ? child.breadth : child.length) : 0;
      corner.set(+it.slice(1), [box[0] + ((box[2] - inner) >> 1), box[1] + PAD + TITLE]);
    });
    lines.push(...draw(t, s, r, at));
  }
  const { length, breadth: wide } = rooms.get(0);
  return { boxes, lines, w: down ? wide : length, h: down ? length : wide };
}

function room(t, made, rooms, down) {
  const { items, rows, chains } = made, r = { ...made, down, row: [], start: [], end: [], door: new Map(), gaps: down ? DOWN : RIGHT };
  rows.forEach((row, k) => row.forEach((i) => { r.row[i] = k; }));
  r.size = items.map((it, i) => {
    const child = isBox(it) && rooms.get(+it.slice(1));
    let w = NODE_W, h = isNode(it) && cardHeight(t.nodes[it]);
    if (isBox(it)) [w, h] = child ? [max(down ? child.breadth : child.length, BOX_W) + 2 * PAD, (down ? child.length : child.breadth) + 2 * PAD + TITLE] : [BOX_W, BOX_H];
    else if (!isNode(it)) w = h = PORT;
    const size = down ? [h, w] : [w, h];
    const lead = child && (down ? PAD + TITLE : (size[0] - child.length) >> 1), middle = child && (down ? child.breadth >> 1 : (size[1] >> 1) - PAD - TITLE);
    if (child) child.items.forEach((port, j) => { if (!isNode(port) && !isBox(port)) r.door.set(i + port, [lead + ((child.start[child.row[j]] + child.end[child.row[j]]) >> 1), child.centre[j] - middle]); });
    return size;
  });
  across(t, r);
  const told = new Set(chains.map((c) => c.at(-1)).filter((i) => isNode(items[i])));
  let here = 0;
  rows.forEach((row, k) => {
    if (k) here += row.some((i) => told.has(i)) ? r.gaps.along : r.gaps.bare;
    r.start.push(here);
    r.end.push((here += max(0, ...row.map((i) => (i < items.length ? r.size[i][0] : 0)))));
  });
  r.length = here;
  return r;
}
const breadth = (r, i) => (i < r.items.length ? r.size[i][1] : LANE);
const origin = (t, r, k) => t.edges[r.edges[k][0]].from;

/** Each item wants the middle of its neighbours; wishes that overlap are pooled (least squares with distances). */
function across(t, r) {
  const near = [0, 1].map(() => r.row.map(() => []));
  r.chains.forEach((chain, k) => {
    const from = origin(t, r, k), out = r.door.get(`${chain[0]}out${from}`)?.[1] ?? 0, into = r.door.get(`${chain.at(-1)}in${from}`)?.[1] ?? 0;
    for (let j = 1; j < chain.length; j++) {
      const p = chain[j - 1], q = chain[j], shift = (j === 1 ? out : 0) - (j === chain.length - 1 ? into : 0), later = r.row[q] > r.row[p];
      near[+!later][q].push([p, shift]); near[+later][p].push([q, -shift]);
    }
  });
  const n = r.items.length, c = (r.centre = []), fed = new Set(r.chains.map((chain) => chain.at(-1))), firm = (o) => fed.has(o) || String(r.items[o]).startsWith("in"), streams = new Set(r.chains.flatMap((chain) => (chain.length > 3 && firm(chain[0]) ? chain.slice(1, -1) : [])));
  const offsets = (row) => {
    const o = [0];
    for (let k = 1; k < row.length; k++) o.push(o[k - 1] + ((breadth(r, row[k - 1]) + breadth(r, row[k])) >> 1) + [r.gaps.across, r.gaps.lane, 12][(row[k - 1] >= n) + (row[k] >= n)]);
    return o;
  };
  const offs = r.rows.map(offsets);
  r.rows.forEach((row, k) => row.forEach((i, j) => { c[i] = offs[k][j]; }));
  // forward, an item looks at streams first, then at computed items; in the end leaves close up to their readers
  for (let turn = 0; turn < 8; turn++) for (let l = 0; l < r.rows.length; l++) {
    const last = turn === 7, k = turn % 2 && !last ? r.rows.length - 1 - l : l, row = r.rows[k], pools = [], groups = [...(turn % 2 ? [] : [(o) => streams.has(o), firm]), (o) => o < n, () => true];
    row.forEach((i, j) => {
      const stays = last && (i >= n || firm(i)), some = near[turn % 2][i], q = (i < n ? groups.map((g) => some.filter(([o]) => g(o))).find((s) => s.length) ?? [] : some).map(([o, shift]) => c[o] + shift).sort((a, b) => a - b);
      const want = q.length && !stays ? (q[(q.length - 1) >> 1] + q[q.length >> 1]) >> 1 : c[i], pull = stays ? 1024 : i < n ? 1 : 4;
      let pool = [(want - offs[k][j]) * pull, pull, 1];
      while (pools.length && pools.at(-1)[0] * pool[1] > pool[0] * pools.at(-1)[1]) { const p = pools.pop(); pool = pool.map((v, x) => v + p[x]); }
      pools.push(pool);
    });
    let j = 0;
    for (const [sum, weight, many] of pools) for (let x = 0; x < many; x++, j++) if (!last || (row[j] < n && !firm(row[j]))) c[row[j]] = floor((2 * sum + weight) / (2 * weight)) + offs[k][j];
  }
  let low = Infinity, high = -Infinity;
  c.forEach((v, i) => { low = min(low, v - (breadth(r, i) >> 1)); });
  c.forEach((v, i) => { c[i] = v - low; high = max(high, c[i] + (breadth(r, i) >> 1)); });
  r.breadth = c.length ? high : 0;
}

/** For each line, where it leaves and arrives, from the middles of its items; ports keep the order of the other ends. */
function endsOf(t, r) {
  const ends = r.chains.map(() => [0, 0]);
  for (const end of [0, 1]) {
    const mine = new Map();
    r.chains.forEach((chain, k) => {
      const item = chain.at(-end), door = r.door.get(item + ["out", "in"][end] + origin(t, r, k));
      if (door) ends[k][end] = door[1];
      else if (r.size[item][1] > SIDE) put(mine, item, k);
    });
    for (const [item, ks] of mine) {
      const other = (k) => r.centre[r.chains[k].at(end ? -2 : 1)];
      ks.sort((a, b) => other(a) - other(b) || a - b);
      for (const [middle, wide, some] of bundles(t, r, item, ks, !end)) {
        const step = min(APART, floor(wide / max(1, some.length - 1)));
        some.forEach((k, n) => { ends[k][end] = middle + floor(((2 * n - some.length + 1) * step) / 2); });
      }
    }
  }
  return ends;
}

/** Lines at one side of an item, with the middle and the room of their ends: at the rows of outputs; downwards these stand side by side. */
function bundles(t, r, item, ks, leaving) {
  const wide = r.size[item][1], node = leaving && t.nodes[r.items[item]];
  if (!node?.outputs) return [[0, wide - SIDE, ks]];
  const tops = cellTops(node), last = tops.length - 2, each = floor((wide - SIDE) / (last + 1)), by = new Map();
  for (const k of ks) put(by, min(t.edges[r.edges[k][0]].out ?? 0, last), k);
  return [...by].map(([out, some]) => (r.down ? [floor(((2 * out - last) * each) / 2), each >> 1, some] : [((tops[out] + tops[out + 1]) >> 1) - (wide >> 1), SIDE, some]));
}

function draw(t, scope, r, at) {
  const pair = (chain) => `${chain[0]} ${chain.at(-1)}`, ends = endsOf(t, r), twins = tally(r.chains.map(pair)), taken = new Map();
  return r.chains.map((chain, k) => {
    const a = r.items[chain[0]], b = r.items[chain.at(-1)], bent = twins.get(pair(chain)) > 1 && chain.length === 2;
    const { d, spots } = route(t, r, k, ends[k], at, bent ? Math.sign(ends[k][1]) * r.gaps.bow : 0);
    return { scope, a, b, edges: r.edges[k], d, chip: isNode(b) ? spot(spots, taken) : null };
  });
}

/** Straight to the end of the row, then a curve to the next one: no line crosses an open box. */
function route(t, r, k, ends, at, bow) {
  const chain = r.chains[k], a = chain[0], b = chain.at(-1), from = origin(t, r, k), up = r.row[a] > r.row[b];
  const point = (m, c) => (r.down ? [at[0] + c, at[1] + m] : [at[0] + m, at[1] + c]), xy = (p) => p.join(" ");
  const sides = (i) => (up ? [r.end[r.row[i]], r.start[r.row[i]]] : [r.start[r.row[i]], r.end[r.row[i]]]);
  const edge = (i, leaving) => {
    const near = r.start[r.row[i]], long = r.size[i][0], door = r.door.get(i + (leaving ? "out" : "in") + from);
    return near + ((r.end[r.row[i]] - near - long) >> 1) + (door ? door[0] : leaving !== up ? long : 0);
  };
  let c = r.centre[a] + ends[0], here = edge(a, true), d = `M${xy(point(here, c))}`, curve;
  if (here !== sides(a)[1]) d += `L${xy(point((here = sides(a)[1]), c))}`;
  for (const i of chain.slice(1)) {
    const to = r.centre[i] + (i === b ? ends[1] : 0), there = sides(i)[0], m = (here + there) >> 1, stop = i === b ? edge(i, false) : sides(i)[1];
    curve = [point(here, c), point(m, c + bow), point(m, to + bow), point(there, to)];
    d += `C${curve.slice(1).map(xy).join(" ")}`;
    if (stop !== there) d += `L${xy(point(stop, to))}`;
    here = stop; c = to;
  }
  const far = (i) => abs(2 * chain.indexOf(i) - chain.length), lanes = chain.slice(1, -1).sort((p, q) => far(p) - far(q)).map((i) => [-1 - r.row[i], point((r.start[r.row[i]] + r.end[r.row[i]]) >> 1, r.centre[i])]);
  return { d, spots: lanes.length ? lanes : on(curve).map((p) => [r.row[a], p]) };
}

/** Where on a curve a chip may stand, in eighths, the best first. */
const on = (curve) => [4, 3, 5, 2, 6].map((n) => {
  const e = 8 - n, weights = [e ** 3, 3 * e * e * n, 3 * e * n * n, n ** 3];
  return [0, 1].map((axis) => floor(weights.reduce((s, w, i) => s + w * curve[i][axis], 0) / 512));
});
/** The first place that no earlier chip of the same gap or row needs. */
function spot(spots, taken) {
  for (const [where, [x, y]] of spots) {
    const near = taken.get(where)?.slice(-24) ?? [];
    if (near.every(([tx, ty]) => abs(x - tx) >= CHIP_W || abs(y - ty) >= CHIP_H)) { put(taken, where, [x, y]); return [x, y]; }
  }
  return null;
}
