import { el, fill, set } from "./dom.js";
import { abs, ceil, finite, floor, max, min, sqrt, put } from "./math.js";
import { text, short, fit, columns, facts, size, isScalar, isLeaf, gradAt, portsOf, typeOf, formula, rule, sent, clean, itemOf, isWrong, many, scopeName } from "./story.js";
import { place, isNode, isBox, cellTops, cardHeight, NODE_W, PAD } from "./layout.js";

const GLYPH = { multiply: "×", add: "+", subtract: "−", divide: "÷", matmul: "·" };
const SPLIT = 84, EDGE = 24, ROOF = 42, LEAST = .85, calm = matchMedia("(prefers-reduced-motion:reduce)");
const T = (x, y, cls, s) => el("text", { x, y, class: cls }, s);
const R = (x, y, width, height, cls, rx = 0, more) => el("rect", { x, y, width: max(0, width), height, class: cls, rx, ...more });

/** 60 × 24: a histogram, or a heat map, and below it the shares of broken, zero, negative, positive elements. */
export function strip(f, x, y, c, w = 60, h = 24) {
  const out = [], cut = (k, n, room) => floor((room * k) / n);
  if (f.grid.length && !f.bins.length) {
    const rows = max(1, floor(f.grid.length / max(1, f.cols))), top = f.grid.reduce((m, v) => (finite(v) ? max(m, abs(v)) : m), 0);
    const tones = new Map();
    f.grid.forEach((v, k) => {
      const r = floor(k / f.cols), q = k % f.cols, a = cut(q, f.cols, w), b = cut(r, rows, h), wide = cut(q + 1, f.cols, w) - a, tone = finite(v) ? `f-${v < 0 ? "mute" : c} o${top ? floor(9 * (abs(v) / top)) : 0}` : "f-bad";
      tones.set(tone, (tones.get(tone) ?? "") + `M${x + a} ${y + b}h${wide}v${cut(r + 1, rows, h) - b}h${-wide}z`);
    });
    for (const [tone, d] of tones) out.push(el("path", { d, class: tone, opacity: tone.includes(" o") ? (1 + +tone.at(-1)) / 10 : 1 }));
  } else if (f.bins.length) {
    const top = max(...f.bins), n = f.bins.length;
    f.bins.forEach((many, k) => {
      const a = cut(k, n, w), tall = many ? max(1, floor((h * many) / top)) : 0;
      if (tall) out.push(R(x + a, y + h - tall, max(1, cut(k + 1, n, w) - a - 1), tall, f.low + ((f.high - f.low) * (2 * k + 1)) / (2 * n) < 0 ? "f-mute" : "f-" + c));
    });
    out.push(el("path.rule", { d: `M${x} ${y + h}h${w}` }));
  } else out.push(T(x, y + 14, c, f.n ? `‖${short(f.norm, 6)}‖` : "empty"));
  out.push(R(x, y + h + 6, w, 5, "health", 2));
  let here = 0;
  for (const [many, cls] of [[f.broken, "bad"], [f.zero, ""], [f.negative, "mute"], [f.n - f.broken - f.zero - f.negative, c]]) {
    const a = cut(here, f.n, w);
    if (many && cls) out.push(R(x + a, y + h + 6, ceil((w * (here + many)) / f.n) - a, 5, `f-${cls} share`));
    here += many;
  }
  return out;
}
const number = (x, head, s, c) => T(x, head + (s.length <= 5 ? 37 : 36), `num ${c} ${s.length <= 5 ? "t21" : s.length === 6 ? "t17" : ""}`, s);

/** The inside of a node's card in a state. */
function card(ix, st, n) {
  const node = ix.t.nodes[n], known = st.known.has(n), tops = cellTops(node), ports = portsOf(node), tall = tops[0] === 44, h = cardHeight(node), first = known && ix.first.get(n);
  const out = [R(-5, -5, NODE_W + 10, h + 10, "ring", 18), R(0, 0, NODE_W, h, "card", 13)];
  if (first) out.push(R(2, 2, NODE_W - 4, h - 4, "hatched", 11), R(10, -18, 9 * first.length + 16, 22, "tag-bad", 11), T(18, -3, "num bad", first));
  const cy = tall ? 22 : 21, arms = ix.awaited[n], got = arms.filter(st.came).length, ratio = arms.length > 4 ? `${got}/${arms.length}` : "";
  out.push(el("circle.badge", { cx: 24, cy, r: 12 }));
  if (node.op === "input") out.push(el("circle.glyph", { cx: 24, cy, r: 4 }));
  else if (node.op === "parameter") out.push(el("path.glyph", { d: `M24 ${cy - 6}l6 6l-6 6l-6 -6z` }));
  else if (node.op === "constant") out.push(R(20, cy - 4, 8, 8, "glyph"));
  else out.push(T(24, cy + 5, "glyph mid t16", GLYPH[node.op] ?? "ƒ"));
  if (ratio) out.push(T(154, 26, "num g end", ratio));
  else arms.forEach((_, k) => out.push(el("circle", { cx: 150 - (arms.length - 1 - k) * 14, cy: 21, r: 4.5, class: k < got ? "pip full" : "pip" })));
  const room = NODE_W - 58 - (ratio ? ratio.length * 8 + 8 : arms.length * 14), name = ix.name[n], em = columns(name) * 10 <= room ? 10 : 8, shown = fit(name, floor(room / em)), y = tall ? 20 : 26;
  const left = floor((room - columns(shown) * em - 7) / 8), what = isLeaf(node) ? node.op : "= " + formula(ix, n, (m) => ix.name[m]);
  out.push(T(44, y, `name ${em === 10 ? "t16" : ""}`, shown));
  if (columns(what) <= left || (!isLeaf(node) && left >= 5)) out.push(T(51 + columns(shown) * em, y, "mute", fit(what, left)));
  if (tall) out.push(T(44, 37, "mute", fit(node.outputs ? `${ports.length} outputs` : typeOf(node), 14)));
  out.push(el("path.rule", { d: tops.slice(0, -1).map((y) => `M0 ${y}h${NODE_W}`).join("") + `M${SPLIT} ${tops[0]}V${tops.at(-1)}` }), tops.slice(0, -1).map((y, k) => cells(ix, st, n, k, y, first)));
  if (ports.length > 4) out.push(T(14, h - 6, "cap", `+${ports.length - 4} more`));
  return out;
}
/** The value and the gradient of one output. */
function cells(ix, st, n, k, head, first) {
  const node = ix.t.nodes[n], port = portsOf(node)[k], tensor = port.shape.length > 0, known = st.known.has(n), value = known && port.value ? facts(port.value, port.shape) : null, gx = SPLIT + 12;
  const out = [T(14, head + 15, "cap", "value" + (node.outputs ? " " + k : "")), T(gx, head + 15, "cap", "gradient")];
  if (!known) out.push(number(14, head, "·", "mute"));
  else if (!value) out.push(T(14, head + 35, "mute", ix.t.detail === "shape" ? fit(typeOf(port), 8) : "released"));
  else if (tensor) out.push(strip(value, 14, head + 21, "v"));
  else out.push(value.broken && !first && R(2, head + 1, SPLIT - 3, 46, "hatched", 8), number(14, head, short(port.value.v, 8), value.broken ? "bad" : "v"));
  const grad = gradAt(ix, st, n, k);
  if (!grad) out.push((st.end && ix.t.detail !== "shape") || (st.seeded && !node.requires_grad && !port.grad) ? T(gx, head + 35, "mute", "∅ none") : number(gx, head, "·", "mute"));
  else if (!("v" in grad || "n" in grad)) out.push(T(gx, head + 35, "g", "so far …"));
  else {
    const f = facts(grad, port.shape), wrong = isWrong(node) && ix.awaited[n].every(st.came);
    if (f.n && f.zero === f.n) out.push(R(SPLIT + 5, head + 5, 74, tensor ? 54 : 40, "hollow", 8));
    out.push(tensor ? strip(f, gx, head + 21, "g") : [f.broken && R(SPLIT + 1, head + 1, 81, 46, "hatched", 8), number(gx, head, short(grad.v, 8), (f.broken ? "bad" : "g") + (wrong ? " wrong" : ""))]);
  }
  return out;
}
/** What a card says to someone who cannot see it. */
export function spoken(ix, st, n) {
  const node = ix.t.nodes[n], arms = ix.awaited[n], got = arms.filter(st.came).length, known = st.known.has(n), scalar = (q, { shape }) => (isScalar(q) ? text(q.v) : `of norm ${text(facts(q, shape).norm)}`);
  const told = (p, k) => { const g = gradAt(ix, st, n, k); return (node.outputs ? `, output ${k}` : "") + (!known ? "" : p.value ? ", value " + scalar(p.value, p) : ", value not kept") + ", " + (g ? "gradient " + ("v" in g || "n" in g ? scalar(g, p) : "so far") : "no gradient" + (st.end ? "" : " yet")); };
  return [ix.label[n], node.op + (!node.outputs && node.shape.length ? ", " + typeOf(node) : "") + (known ? "" : ", not computed yet") + portsOf(node).map(told).join(""), arms.length && `${got} of ${arms.length} contributions arrived`, ix.first.get(n)].filter(Boolean).join(", ");
}

/** A number on an edge: 3, then 16 × 3 = 48 in its frame, then 3 | 48. */
function chip(ix, st, line) {
  const i = line.edges[0], e = ix.t.edges[i];
  if (!line.chip || !st.known.has(e.to) || !e.local) return null;
  const lead = st.ahead && st.frame.nodes.includes(e.to), done = st.arrived.has(i), now = done && st.back && st.arrived.get(i) === st.at, CH = 8.2;
  let a = rule(e, done ? 9 : 14), b = done ? sent(e) : "", parts;
  if (now) {
    const up = gradAt(ix, st, e.to);
    if (isScalar(up) && "v" in e.local && !ix.t.nodes[e.to].outputs) {
      a = `${text(up.v)} × ${text(e.local.v)} = `;
      if ((a + b).length > 15) { a = `${text(up.v, 3)} × ${text(e.local.v, 3)}`; b = `= ${sent(e, 3)}`; }
    } else { a = rule(e, 12); a = a === "∂" ? "" : a + " "; b = "→ " + b; }
    const long = (a + b).length > 15, w = (long ? max(a.length, b.length) : (a + b).length) * CH + 22, h = long ? 42 : 26;
    parts = [R(-w / 2, -h / 2, w, h, "chip-box", 13), long ? [T(0, -4, "chip mid", a.trim()), T(0, 14, "chip mid g", b)] : el("text.chip.mid", { y: 5 }, a, el("tspan.g", b))];
  } else if (done) {
    if (!("v" in e.local)) a = rule(e, 11 - b.length);
    else for (const digits of [3, 2]) if ((a + b).length > 11) { a = rule(e, 9, digits); b = sent(e, digits); }
    const w = (a + b).length * CH + 36, r = b.length * CH + 18;
    parts = a === "∂" ? [R(-r / 2, -13, r, 26, "chip-box tint", 13), T(0, 5, "chip mid g", b)] : [R(-w / 2, -13, w, 26, "chip-box", 13), R(w / 2 - r, -12, r - 1, 24, "chip-part", 12), T(-r / 2 + 2, 5, "chip mid", a), T(w / 2 - r / 2, 5, "chip mid g", b)];
  } else {
    const w = max(30, a.length * CH + 20);
    parts = [R(-w / 2, -13, w, 26, "chip-box", 13), T(0, 5, "chip mid", a)];
  }
  return el(now ? "g.chips.now.back" : lead ? "g.chips.now" : "g.chips", { transform: `translate(${line.chip})` }, parts, e.local.text && el("title", clean(e.local.text)));
}

/** Whether a line ends at an item: at a node or a closed group. */
const ends = (it, open) => isNode(it) || (isBox(it) && !open.has(+it.slice(1)));

/** Draws the graph into host, only what is in sight, and returns what the page needs of it. */
export function scene(host, layout, { pick, toggle }) {
  let ix, st, picked, pos, down, opened, fitted, scale, free = 1, stamp = 0, all, live = new Map();
  const [back, rooms, lines, cards, chips, top] = [..."123456"].map(() => el("g")), wind = el("path"), windText = el("text");
  const isEnd = (it) => ends(it, opened), tip = (id) => el("marker", { id, viewBox: "0 0 10 10", refX: id === "tip-g" ? 1 : 9, refY: 5, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, el("path." + id, { d: id === "tip-g" ? "M10 0L0 5L10 10z" : "M0 0L10 5L0 10z" }));
  const svg = el("svg", { role: "group" }, el("defs", ["tip", "tip-off", "tip-v", "tip-g"].map(tip)), wind, windText, back, rooms, lines, cards, chips, top), box = el("div.view", svg);
  fill(host, box);
  box.addEventListener("scroll", () => st && see(), { passive: true });

  function lineParts(line) {
    const { edges } = ix.t, here = line.edges.some((i) => st.known.has(edges[i].to)), done = line.edges.filter(st.came), lead = st.ahead && line.edges.some((i) => st.frame.nodes.includes(edges[i].to));
    const total = done.reduce((s, i) => s + size(edges[i].contribution), 0), bad = !finite(total), now = st.back && done.some((i) => st.arrived.get(i) === st.at), width = (2.5 + 9.5 * sqrt(bad ? 1 : min(1, ix.top && total / ix.top))).toFixed(1);
    return [done.length > 0 && total !== 0 && el("path", { d: line.d, class: `flow${now ? " now" : ""}${bad ? " broken" : ""}`, "stroke-width": width }), el("path", { d: line.d, class: `edge ${done.length ? (total ? "back" : "back nil") : lead ? "lead" : here ? "on" : ""}`, [done.length ? "marker-start" : "marker-end"]: isEnd(done.length ? line.a : line.b) && `url(#tip${done.length ? "-g" : lead ? "-v" : here ? "" : "-off"})` }),
      line.edges.length > 1 && el("title", `${line.edges.length} edges`)];
  }
  const title = (sign, s, w) => `${sign} ${fit(scopeName(ix, "s" + s), floor((w - 60) / 9))}`;
  function group(s, w, h) {
    return opened.has(s) ? R(0, 0, w, h, "room", 18) : [R(5, 5, w, h, "under", 13), R(-5, -5, w + 10, h + 10, "ring", 18), R(0, 0, w, h, "card", 13), T(16, 26, "t14 name", title("▸", s, w)), T(35, 44, "cap", `${many(ix.count.get(s))} nodes`)];
  }
  function tags([x, y, w], nodes) {
    const out = [];
    let at = x + 10;
    nodes.some((n, k) => {
      const name = fit(ix.name[n], 8), wide = columns(name) * 8 + 16, more = k > 0 && at + wide > x + w;
      out.push(more ? T(at, y - 14, "mute", "+" + (nodes.length - k)) : [el("path.edge.on", { d: `M${at + 12} ${y - 8}V${y}` }), R(at, y - 28, wide, 20, "tag", 10), T(at + wide / 2, y - 14, "mute mid", name)]);
      at += wide + 6;
      return more;
    });
    return out;
  }
  /** Everything that can be drawn: its bounds, its layer, a maker of its parts; what a press does, how it is marked. */
  function things() {
    all = new Map();
    for (const [it, [x, y, w, h]] of pos.boxes) {
      const th = { at: [x - 12, y - 34, x + w + 12, y + h + 12], layer: cards, wrap: { transform: `translate(${x} ${y})`, role: "button", tabindex: -1 } }, s = isNode(it) || +it.slice(1);
      if (s === true) Object.assign(th, { make: () => card(ix, st, it), act: () => pick(it), mark: (g) => mark(g, it) });
      else if (isBox(it)) Object.assign(th, { layer: opened.has(s) ? rooms : cards, make: () => group(s, w, h), act: () => toggle(s), mark: (g) => set(g, { class: `scope${st.frame.item === it ? way() : ""}`, "aria-expanded": String(opened.has(s)), "aria-label": `${scopeName(ix, it)}, ${ix.count.get(s)} nodes` }) });
      else Object.assign(th, { layer: lines, wrap: {}, make: () => el("circle.port", { cx: x + w / 2, cy: y + h / 2, r: 4 }) });
      all.set(it, th);
      if (opened.has(s)) all.set("n" + it, { ...th, layer: cards, wrap: {}, mark: null, make: () => T(x + PAD, y + 26, "t14 name", title("▾", s, w)) });
    }
    pos.lines.forEach((line, k) => {
      const q = line.d.match(/-?\d+/g), xs = q.filter((_, i) => i % 2 === 0), ys = q.filter((_, i) => i % 2), [cx, cy] = line.chip ?? [];
      all.set("l" + k, { at: [min(...xs), min(...ys), max(...xs), max(...ys)], layer: lines, make: () => lineParts(line) });
      if (line.chip) all.set("c" + k, { at: [cx - 120, cy - 22, cx + 120, cy + 22], layer: chips, make: () => chip(ix, st, line) });
    });
    for (const [s, made] of Object.entries(layout)) for (const [item, nodes] of Object.entries(made.tags)) {
      const b = pos.boxes.get(/^\d+$/.test(item) ? +item : item) ?? pos.boxes.get(`${item}/${s}`);
      if (b) all.set(`t${item}/${s}`, { at: [b[0], b[1] - 30, b[0] + b[2], b[1]], layer: cards, make: () => tags(b, nodes) });
    }
  }
  /** Draws what is in sight and not yet drawn for this frame. */
  function see() {
    const few = all.size <= 300, left = box.scrollLeft / scale + pos.x, up = box.scrollTop / scale - EDGE - ROOF, right = left + box.clientWidth / scale, low = up + box.clientHeight / scale;
    for (const [key, th] of all) {
      const [x0, y0, x1, y1] = th.at, near = few || (x1 > left - 200 && x0 < right + 200 && y1 > up - 200 && y0 < low + 200);
      let g = live.get(key);
      if (!near) { if (g && !g.contains(document.activeElement)) { g.remove(); live.delete(key); } continue; }
      if (!g) {
        live.set(key, (g = el("g", th.wrap)));
        th.layer.append(g);
        if (th.act) set(g, { onclick: th.act, onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); e.stopPropagation(); th.act(); } } });
      }
      if (g.stamp === stamp) continue;
      fill(g, th.make());
      g.stamp = stamp;
      th.mark?.(g);
    }
  }
  const way = () => (st.ahead ? " fwd" : " bwd");
  function mark(g, n) {
    const gets = st.back && ix.outs[n].some((i) => st.arrived.get(i) === st.at);
    set(g, { class: `node${st.known.has(n) ? "" : " ghost"}${st.frame.nodes.includes(n) ? way() : gets ? " gets" : ""}`, tabindex: picked === n ? 0 : -1, "aria-pressed": String(picked === n), "aria-label": spoken(ix, st, n) });
  }
  /** Places everything: to the right if it fits at a readable size, else down if that is narrower. */
  function arrange(index, open, want) {
    [ix, opened, down] = [index, open, want === "down"];
    const room = (p) => (host.clientWidth - 2) / (p.w + 2 * EDGE);
    pos = place(ix.t, layout, open, down);
    if (!want && room(pos) < LEAST) {
      const other = place(ix.t, layout, open, true);
      if (other.w < pos.w) { pos = other; down = true; }
    }
    pos.x = -EDGE;
    for (const { chip } of pos.lines) if (chip) { pos.x = min(pos.x, chip[0] - 69); pos.w = max(pos.w, chip[0] + 45); }
    fitted = max(LEAST, min(1.5, room(pos), (host.clientHeight - 2) / (pos.h + 2 * EDGE + ROOF)));
    live.forEach((g) => g.remove());
    live = new Map();
    things();
    zoom(free);
  }
  function zoom(by) {
    free = max(LEAST / fitted, min(3, by));
    scale = fitted * free;
    const w = max(pos.w, 320) + EDGE - pos.x, h = pos.h + 2 * EDGE + ROOF;
    set(svg, { viewBox: `${pos.x} ${-EDGE - ROOF} ${w} ${h}`, width: floor(w * scale), height: floor(h * scale) });
    if (st) see();
  }
  function paint(index, state, followed) {
    [ix, st, picked] = [index, state, followed];
    stamp++;
    const fwd = st.ahead, wide = max(pos.w, 320), tone = fwd ? "v" : "g", alone = pos.boxes.size < 2, [x, y, w, h] = pos.boxes.get(itemOf(ix, picked, opened));
    fill(back, el("rect.halo", { x: x - 7, y: y - 7, width: w + 14, height: h + 14, rx: 20 }));
    set(svg, { "aria-label": clean(ix.t.title ?? "graph") });
    fill(set(windText, { class: `wind-text ${tone}${fwd || down ? "" : " end"}`, x: fwd || down ? 0 : wide, y: -34 }), !alone && (fwd ? "forward: values, in topological order" : "backward: gradients, in reverse order"));
    const room = windText.getComputedTextLength() + 14;
    set(wind, { class: "wind " + tone, d: alone ? "" : down ? `M${room} ${fwd ? "-48v18m-5 -6l5 6l5 -6" : "-30v-18m-5 6l5 -6l5 6"}` : fwd ? `M${room} -38H${wide}m-7 -5l7 5l-7 5` : `M${wide - room} -38H0m7 -5l-7 5l7 5` });
    see();
  }
  /** Brings an item into sight, calmly. */
  function reveal(it, jump) {
    const b = pos.boxes.get(isNode(it) ? itemOf(ix, it, opened) : it), near = (at, len, from, room) => (at < from + 40 || at + len > from + room - 40 ? at + len / 2 - room / 2 : from);
    if (!b) return;
    box.scrollTo({ left: near((b[0] - pos.x) * scale, b[2] * scale, box.scrollLeft, box.clientWidth), top: near((b[1] + EDGE + ROOF) * scale, b[3] * scale, box.scrollTop, box.clientHeight), behavior: jump || calm.matches ? "auto" : "smooth" });
    if (jump) see();
  }
  /** Drops that carry the contributions of this frame from the op to its inputs. */
  function drops() {
    fill(top);
    if (!st.back || calm.matches) return;
    pos.lines.forEach((line, k) => {
      const path = live.get("l" + k)?.querySelector(".edge"), begin = performance.now();
      if (!path || !line.edges.some((i) => st.arrived.get(i) === st.at)) return;
      const drop = el("circle.drop", { r: 7 }), length = path.getTotalLength();
      top.append(drop);
      requestAnimationFrame(function move(now) {
        const u = min(1, max(0, now - begin) / 750), { x, y } = path.getPointAtLength(length * (1 - u * u * (3 - 2 * u)));
        set(drop, { cx: x, cy: y });
        if (u < 1 && drop.isConnected) requestAnimationFrame(move); else drop.remove();
      });
    });
  }
  return { arrange, paint, reveal, drops, has: (n) => pos.boxes.has(n), zoom: (by) => zoom(by ? free * by : 1), whole: () => zoom(1 / fitted), focus(it) { reveal(it, true); live.get(it)?.focus(); } };
}

/** The film's small pictures, from the same geometry; in a crowd, one mark for all that share a spot. */
export function thumbs(ix, layout, open) {
  const pos = place(ix.t, layout, open), members = new Map(), boxes = [...pos.boxes].filter(([it]) => ends(it, open)), crowd = boxes.length > 120;
  for (const n of ix.t.order.forward) put(members, itemOf(ix, n, open), n);
  const W = pos.w + 140, long = pos.w > 6 * pos.h, H = (long ? pos.h : max(pos.h, pos.w / 5)) + 140, q = W / 90;
  return (st) => {
    const by = { off: "", v: "", g: "", now: "" }, seen = new Set();
    for (const [it, [x, y, w, h]] of boxes) {
      const ns = members.get(it) ?? [], has = ns.some((n) => st.sent.has(n) || (st.seeded && n === ix.t.root) || ix.outs[n].some(st.came));
      const cls = st.frame.item === it && !st.end ? "now" : has ? "g" : ns.length && st.known.has(ns.at(-1)) ? "v" : "off", cx = floor(x / q), cy = floor(y / q);
      if (crowd && (cls === "now" || !seen.has(`${cx} ${cy}`))) { seen.add(`${cx} ${cy}`); by[cls] += `M${cx * q} ${cy * q}h${q}v${q}h${-q}z`; }
      if (!crowd) by[cls] += `M${x} ${y}h${w}v${h}h${-w}z`;
    }
    return el("svg", { viewBox: `-70 ${(pos.h - H) / 2} ${W} ${H}`, preserveAspectRatio: long && "none", "aria-hidden": "true" }, !crowd && pos.lines.map((l) => el("path", { d: l.d, class: `t-edge ${l.edges.some(st.came) ? "g" : l.edges.some((i) => st.known.has(ix.t.edges[i].to)) ? "v" : ""}` })),
      Object.entries(by).map(([c, d]) => d && el("path", { d, class: `t-node ${c} ${st.ahead ? "fw" : "bw"}` })));
  };
}
