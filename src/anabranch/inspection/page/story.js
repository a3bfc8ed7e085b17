// What is known at each frame, and how numbers and names are written. Pure functions of the trace: no DOM here.
import { abs, ceil, finite, floor, max, sqrt, put, tally } from "./math.js";

export const num = (v) => (typeof v === "string" ? { nan: NaN, inf: Infinity, "-inf": -Infinity }[v] ?? +v : +v);

/** Four significant digits and no fewer than a whole number has; a true minus sign. */
export function text(value, digits = 4) {
  if (typeof value === "boolean") return String(value);
  const v = num(value);
  if (v !== v) return "NaN";
  if (!finite(v)) return v > 0 ? "∞" : "−∞";
  if (Number.isInteger(v) && abs(v) < 1e6) return String(v || 0).replace("-", "−");
  let said = power(v, digits), e = said.split("e")[1];
  if (e >= digits && e < 6) said = power(v, +e + 1);
  return (e >= -4 && e < 6 ? String(+said) : said).replaceAll("-", "−");
}
function power(v, digits) {
  const [m, e] = v.toExponential(digits - 1).split("e");
  return `${+m}e${+e}`;
}
/** text() with as many digits as fit into so many columns, at least one. */
export function short(value, room) {
  let said = "";
  for (const d of [4, 3, 2]) if ((said = text(value, d)).length <= room) return said;
  for (const d of [3, 2, 1]) if ((said = power(num(value), d).replaceAll("-", "−")).length <= room) break;
  return said;
}
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
export const columns = (s) => [...s].reduce((n, c) => n + (WIDE.test(c) ? 2 : 1), 0);
/** A text cut to so many columns, with … where something is missing. */
export function fit(s, room) {
  if (s.length <= room && columns(s) <= room) return s;
  let used = 1, kept = "";
  for (const c of s.slice(0, 2 * room + 2)) { used += WIDE.test(c) ? 2 : 1; if (used > room) break; kept += c; }
  return kept.trimEnd() + "…";
}
/** A text in which nothing controls anything. */
export const clean = (s) => String(s).toWellFormed().replace(/\n/g, "␤").replace(/[\0-\x1f\x7f-\x9f\u202a-\u202e\ufffe\uffff]/g, "\ufffd");

const flat = (v) => (Array.isArray(v) ? v.flat(Infinity) : [v]).map(num);

/** A summary counted: how many of each kind, the norm, and what a strip shows. */
export function facts(q, shape) {
  const f = { n: 0, nan: 0, inf: 0, zero: 0, negative: 0, norm: 0, bins: [], grid: [], cols: 0 };
  if (!("v" in q)) {
    for (const k of ["n", "nan", "inf", "zero", "negative", "norm"]) f[k] = num(q[k] ?? 0);
    if (q.grid) { f.grid = q.grid.mean.map(num); f.cols = q.grid.cols; }
    if (q.hist) {
      const { bins } = q.hist, size = ceil(bins.length / 16);
      for (let i = 0; i < bins.length; i += size) f.bins.push(bins.slice(i, i + size).reduce((a, b) => a + b, 0));
      f.low = num(q.hist.lo); f.high = num(q.hist.hi);
    }
  } else {
    const all = flat(q.v), top = all.reduce((m, v) => (finite(v) ? max(m, abs(v)) : m), 0);
    for (const v of all) { f.n++; f.nan += v !== v; f.inf += abs(v) === Infinity; f.zero += v === 0; f.negative += v < 0 && v > -Infinity; }
    if (top) f.norm = top * sqrt(all.reduce((s, v) => (finite(v) ? s + (v / top) * (v / top) : s), 0));
    f.cols = shape.length ? shape.at(-1) : 1;
    if (f.cols <= 48 && all.length <= 576) f.grid = all;
  }
  f.broken = f.nan + f.inf;
  return f;
}
/** Width of a contribution: its norm; infinite where it is not finite. */
export function size(q) {
  const f = facts(q, []);
  return f.broken ? Infinity : f.norm;
}
export const isScalar = (q) => !!q && "v" in q && !Array.isArray(q.v);

const gave = (ix, i) => ix.t.edges[i].contribution;
/** The trace with its edges by their ends and the scopes around every node. */
export function indexOf(t) {
  const ix = { t, ins: t.nodes.map(() => []), outs: t.nodes.map(() => []), around: new Map([[0, [0]]]) };
  t.edges.forEach((e, i) => { ix.ins[e.to].push(i); ix.outs[e.from].push(i); });
  ix.ins.forEach((l) => l.sort((a, b) => t.edges[a].slot - t.edges[b].slot));
  for (const s of t.scopes ?? []) if (s.id) { const up = ix.around.get(s.parent ?? 0) ?? [0]; ix.around.set(s.id, up.length < 64 ? [...up, s.id] : up); }
  ix.count = tally(t.nodes.flatMap((n) => pathOf(ix, n.id)));
  ix.turn = new Map(t.order.backward.map((n, k) => [n, k]));
  ix.awaited = t.nodes.map((_, n) => ix.outs[n].filter((i) => gave(ix, i)).sort((a, b) => ix.turn.get(t.edges[a].to) - ix.turn.get(t.edges[b].to) || t.edges[a].slot - t.edges[b].slot));
  const named = tally(t.nodes.map((n) => n.name));
  ix.name = t.nodes.map((n) => (n.name ? clean(n.name) : "#" + n.id));
  ix.label = t.nodes.map((n) => ix.name[n.id] + (n.name && named.get(n.name) > 1 ? " #" + n.id : ""));
  ix.backward = t.order.backward.length > 0 || "seed" in t;
  ix.seed = t.seed ?? { v: 1 };
  ix.top = t.edges.reduce((m, e) => { const s = e.contribution ? size(e.contribution) : 0; return finite(s) ? max(m, s) : m; }, 0);
  ix.first = new Map((t.findings ?? []).filter((f) => f.kind.startsWith("first-")).map((f) => [f.node, f.kind === "first-nan" ? "first NaN" : "first ∞"]));
  return ix;
}
export const pathOf = (ix, n) => ix.around.get(ix.t.nodes[n].scope ?? 0) ?? [0];
/** What stands for a node while these scopes are open: itself, or "s7". */
export function itemOf(ix, n, open) {
  const closed = pathOf(ix, n).slice(1).find((s) => !open.has(s));
  return closed === undefined ? n : "s" + closed;
}
export const isLeaf = (n) => ["input", "parameter", "constant"].includes(n.op);

/** Frames: every item in forward order, the seed, every item whose rule ran, the result. each: one frame an edge. */
export function framesOf(ix, open, each) {
  const t = ix.t;
  if (t.frames?.length) {
    const half = (k) => ({ forward: 0, seed: 1, backward: 1 })[k] ?? 2, total = [0, 0, 0], seen = [0, 0, 0];
    t.frames.forEach((f) => total[half(f.kind)]++);
    return t.frames.map((f) => ({ ...f, item: f.node, nodes: ["end", "note"].includes(f.kind) ? [] : [f.node], part: ++seen[half(f.kind)], of: total[half(f.kind)] }));
  }
  const grouped = (order) => {
    const found = new Map();
    for (const n of order) { const it = itemOf(ix, n, open), ns = found.get(it) ?? []; found.delete(it); ns.push(n); found.set(it, ns); }
    return [...found];
  };
  const fwd = grouped(t.order.forward), out = fwd.map(([item, nodes], i) => ({ kind: "forward", item, nodes, part: i + 1, of: fwd.length }));
  if (!ix.backward) return out;
  let back = [{ kind: "seed", item: t.root, nodes: [t.root] }, ...grouped(t.order.backward).map(([item, nodes]) => ({ kind: "backward", item, nodes }))];
  if (each) back = back.flatMap((f) => (f.kind === "backward" && typeof f.item === "number" ? ix.ins[f.item].filter((i) => gave(ix, i)).map((edge) => ({ ...f, edge })) : [f]));
  back.forEach((f, i) => { f.part = i + 1; f.of = back.length; });
  return [...out, ...back, { kind: "end", item: t.root, nodes: [], part: 1, of: 1 }];
}

/** The outputs of a node. */
export const portsOf = (node) => node.outputs ?? [node];
/** The edges that bring a contribution to an output of a node. */
export const armsOf = (ix, n, out) => ix.awaited[n].filter((i) => (ix.t.edges[i].out ?? 0) === out);

/** What is there after frame k: known nodes, arrived edges (with the frame in which they came), whose rule ran; which way the frame goes. */
export function stateAt(ix, frames, k) {
  const { kind } = frames[k], st = { frame: frames[k], at: k, ahead: kind === "forward", back: kind === "backward", end: kind === "end", known: new Set(), arrived: new Map(), sent: new Set(), seeded: false };
  st.came = (i) => st.arrived.has(i);
  frames.slice(0, k + 1).forEach((f, i) => {
    if (f.kind === "forward") f.nodes.forEach((n) => st.known.add(n));
    if (f.kind === "seed") st.seeded = true;
    if (f.kind === "backward") for (const n of f.nodes) {
      st.sent.add(n);
      for (const e of ix.ins[n]) if (gave(ix, e) && (f.edge === undefined || f.edge === e)) st.arrived.set(e, i);
    }
  });
  return st;
}
/** The gradient of an output in a state: undefined if nothing arrived, {} if a sum in between was not kept. */
export function gradAt(ix, st, n, out = 0) {
  const arms = armsOf(ix, n, out), here = arms.filter(st.came), seed = st.seeded && n === ix.t.root && !out, { grad } = portsOf(ix.t.nodes[n])[out];
  if (!here.length && !seed) return undefined;
  if (here.length === arms.length && grad) return grad;
  return joined(ix, [...(seed ? [ix.seed] : []), ...here.map((i) => gave(ix, i))]);
}
/** What a node held before the contribution of an edge came (undefined: nothing), and what it holds then. */
export function around(ix, e) {
  const { from, out = 0 } = ix.t.edges[e], arms = armsOf(ix, from, out), k = arms.indexOf(e), sent = (i) => gave(ix, i);
  const before = k ? joined(ix, arms.slice(0, k).map(sent)) : undefined;
  return [before, k === arms.length - 1 ? portsOf(ix.t.nodes[from])[out].grad ?? sent(e) : joined(ix, arms.slice(0, k + 1).map(sent))];
}
const joined = (ix, parts) => (ix.assign ? parts.at(-1) : sum(parts));
/** The classic mistake, replayed: each contribution overwrites the one before. Only where all is scalar. */
export function overwritten(t) {
  const g = new Map([[t.root, num(t.seed?.v ?? 1)]]), edges = [...t.edges];
  for (const n of t.order.backward) edges.forEach((e, i) => {
    if (e.to === n && e.contribution) g.set(e.from, (edges[i] = { ...e, contribution: { v: g.get(n) * num(e.local.v) } }).contribution.v);
  });
  return { ...t, edges, nodes: t.nodes.map((n) => (n.grad ? { ...n, grad: { v: g.get(n.id) }, right: n.grad } : n)) };
}
export const isWrong = (node) => node.right && num(node.right.v) !== num(node.grad.v);
export const canOverwrite = (t) => t.order.backward.length > 0 && isScalar(t.seed ?? { v: 1 }) && t.edges.every((e) => !e.contribution || (isScalar(e.contribution) && e.local && "v" in e.local));
function sum(parts) {
  if (!parts.every((q) => "v" in q)) return {};
  const add = (a, b) => (Array.isArray(a) ? a.map((v, i) => add(v, b[i])) : num(a) + num(b));
  return { v: parts.map((q) => q.v).reduce(add) };
}

/** One element of a summary that lists them, as broadcasting finds it; undefined where none is listed. */
export function elementOf(q, index) {
  let v = q?.v, depth = 0;
  for (let w = v; Array.isArray(w); w = w[0]) depth++;
  for (const i of depth ? index.slice(-depth) : []) v = v?.[v.length > 1 ? i : 0];
  return v;
}
/** The index of the k-th element. */
export const indexAt = (shape, k) => shape.map((n, axis) => floor(k / shape.slice(axis + 1).reduce((a, b) => a * b, 1)) % n);
/** By how much an element is stretched on its way back over an edge; undefined where it does not come of the same element alone. */
export function stretch(ix, e, index) {
  const same = String(portsOf(ix.t.nodes[e.from])[e.out ?? 0].shape) === String(ix.t.nodes[e.to].shape);
  return same && e.local ? e.local.v ?? elementOf(e.local.value, index) : undefined;
}
/** Every way of one element's gradient: over elementwise steps to the root, or to where elements meet, which sends the last factor. */
export function waysOf(ix, from, index, most = 6) {
  const stack = [{ nodes: [from], factors: [], product: 1 }], found = [];
  while (stack.length) {
    const way = stack.pop(), at = way.nodes.at(-1), on = (to, factors, by) => ({ nodes: to === undefined ? way.nodes : [...way.nodes, to], factors: [...way.factors, ...factors], product: way.product * by });
    if (way.met || at === ix.t.root) {
      const seed = num(elementOf(ix.seed, index));
      if (found.push(way.met || seed === 1 ? way : on(undefined, [text(seed)], seed)) > most) return [];
      continue;
    }
    const to = new Map();
    for (const i of ix.awaited[at]) put(to, ix.t.edges[i].to, ix.t.edges[i]);
    for (const [next, edges] of [...to].reverse()) {
      const by = edges.map((e) => stretch(ix, e, index)), alone = by.every((v) => v !== undefined), all = (alone ? by : edges.map((e) => elementOf(e.contribution, index))).map(num);
      if (way.nodes.length < 200) stack.push({ ...on(next, [all.length > 1 ? `(${all.map((v) => text(v)).join(" + ")})` : text(all[0])], all.reduce((a, b) => a + b)), met: !alone });
    }
  }
  return found;
}

/** `f64[2,3]` */
export function typeOf(n) {
  const p = /^(bfloat|float|uint|int|complex)(\d+)$/.exec(n.dtype);
  return (p ? p[1].match(/bf|./)[0] + p[2] : clean(n.dtype)) + (n.shape.length ? `[${n.shape.join(",")}]` : "");
}
/** The formula of an op with something shown for each input. */
export function formula(ix, n, show = (m) => ix.label[m]) {
  const node = ix.t.nodes[n], ends = new Map(ix.ins[n].map((i) => [ix.t.edges[i].slot, ix.t.edges[i].from]));
  if (!node.formula) return `${node.op}(${[...ends.values()].map(show).join(", ")})`;
  return clean(node.formula).replace(/\{(\d+)\}/g, (_, i) => (ends.has(+i) ? show(ends.get(+i)) : "·"));
}
/** What a chip says of a local derivative: its number or its rule; Σ where axes are summed; ∂ for what is too long. */
export function rule(e, room, digits) {
  if (!e.local) return null;
  if ("v" in e.local) return text(e.local.v, digits);
  const sign = e.local.summed?.length ? "Σ " : "", said = clean(e.local.text || "∂");
  return sign + (columns(said) + sign.length <= room ? said : "∂");
}
/** What a chip says of a contribution: a number, or how much the upstream was stretched. */
export function sent(e, digits) {
  if (isScalar(e.contribution)) return text(e.contribution.v, digits);
  return e.local?.gain !== undefined ? "×" + text(e.local.gain, 3) : `‖${text(size(e.contribution), 3)}‖`;
}
/** A value in words: its number, or its norm. */
export const said = (q, digits) => (!q ? "·" : isScalar(q) ? text(q.v, digits) : !("v" in q || "n" in q) ? "…" : facts(q, []).nan ? "NaN" : facts(q, []).inf ? "∞" : `‖${text(facts(q, []).norm, digits)}‖`);

/** Every way from a node to the root, parallel edges together; null where there are more than `most`. */
export function waysFrom(ix, from, most = 6) {
  const { t } = ix, reach = new Set([t.root]), found = [], todo = [t.root];
  while (todo.length) for (const i of ix.ins[todo.pop()]) if (!reach.has(t.edges[i].from)) { reach.add(t.edges[i].from); todo.push(t.edges[i].from); }
  const stack = [{ nodes: [from], groups: [] }];
  while (stack.length) {
    const way = stack.pop(), at = way.nodes.at(-1);
    if (at === t.root) { if (found.push(way) > most) return null; continue; }
    const to = new Map();
    for (const i of ix.outs[at]) if (reach.has(t.edges[i].to)) put(to, t.edges[i].to, i);
    if (way.nodes.length < 200) for (const [next, edges] of [...to].reverse()) stack.push({ nodes: [...way.nodes, next], groups: [...way.groups, edges] });
  }
  return found.map((w) => {
    const locals = w.groups.map((g) => g.map((i) => t.edges[i].local?.v)), plain = locals.flat().every((v) => v !== undefined);
    return { ...w, factors: plain ? locals.map((l) => (l.length > 1 ? `(${l.map((v) => text(v)).join(" + ")})` : text(l[0]))) : null, product: plain ? locals.reduce((p, l) => p * l.reduce((a, b) => a + num(b), 0), 1) : NaN };
  }).sort((a, b) => a.nodes.length - b.nodes.length);
}
/** Where a node was written: file.py:12. */
export const lineOf = (ix, n) => { const at = ix.t.nodes[n].at; return at ? `${clean(ix.t.sources[at[0]].file)}:${at[1]}` : ""; };
export const many = (n) => n.toLocaleString("en");
export const scopeName = (ix, it) => clean(ix.t.scopes[+it.slice(1)].name || "scope");
