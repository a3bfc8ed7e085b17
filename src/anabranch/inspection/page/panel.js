import { el, fill } from "./dom.js";
import { abs, finite, floor, max, min, put } from "./math.js";
import { num, text, short, fit, clean, facts, size, isScalar, isLeaf, gradAt, armsOf, portsOf, around, typeOf, formula, rule, sent, said, waysFrom, lineOf, isWrong, many, scopeName, elementOf, indexAt, stretch, waysOf } from "./story.js";
import { isNode } from "./layout.js";
import { strip } from "./scene.js";

export const head = (...kids) => el("th", { scope: "row" }, ...kids);
const isBad = (q) => facts(q, []).broken > 0;
export const p = (...kids) => el("p", ...kids);
export const b = (s, cls) => el(cls ? "b." + cls : "b", s);
const MANY = 10, ARMS = 6;

/** What a frame says, in words and numbers: title, sentences, rows of sums. */
function words(ix, st) {
  const f = st.frame, { t } = ix, L = (n) => ix.label[n], short = (n) => fit(L(n), 14), N = (n) => t.nodes[n], n = f.item, it = b(L(n));
  if (f.title || f.kind === "note") return { title: clean(f.title ?? ""), say: [p(clean(f.text ?? ""))] };
  if (!isNode(n)) {
    const name = scopeName(ix, n), inside = new Set(f.nodes), all = `${many(f.nodes.length)} nodes`;
    if (st.ahead) return { title: `${name} ran`, say: [p(`It is closed: its ${all} are one frame.`)] };
    const out = new Map();
    for (const [i, k] of st.arrived) if (k === st.at && !inside.has(t.edges[i].from)) put(out, t.edges[i].from, t.edges[i]);
    return { title: `${name} passes its gradient on`, say: [p(`The rules of its ${all} ran. What leaves it:`)], sums: [...out].map(([n, es]) => [short(n), "", es.length > 1 ? `${es.length} ×` : said(es[0].contribution), "", said(gradAt(ix, st, n))]) };
  }
  const node = N(n), ins = ix.ins[n].map((i) => [t.edges[i], i]), last = t.nodes.length === 1 ? p("This value was not computed from anything.") : f.part === f.of && !ix.backward && p("Backward has not run, so there are no gradients.");
  if (st.ahead) {
    if (isLeaf(node)) return { title: `${L(n)} is ${node.op === "input" ? "an" : "a"} ${node.op}`, say: [p(node.value ? "Its value is " : "Its type is ", b(isScalar(node.value) ? text(node.value.v) : typeOf(node), "v"), ". Nothing has to be computed before it."), last] };
    const plain = isScalar(node.value) && ins.every(([e]) => isScalar(N(e.from).value)), kept = ins.filter(([e]) => e.local);
    return { title: `${L(n)} = ${formula(ix, n)}`, say: [p("Its inputs are ready, so ", it, " can be computed: ", plain && [b(formula(ix, n, (m) => text(N(m).value.v))), " = "], b(plain ? text(node.value.v) : typeOf(node), "v"), "."),
      kept.length > 0 && ix.backward && p("The local derivatives are kept for backward."), last], sums: kept.map(([e]) => [`∂${L(n)} / ∂${L(e.from)}`, "v" in e.local && e.local.text ? `${clean(e.local.text)} = ` : "", rule(e, 24)]) };
  }
  if (f.kind === "seed") return { title: `Start at ${L(n)}`, say: [p("Backward begins with d", it, "/d", b(L(n)), " = ", b(said(ix.seed), "g"), " and walks the order in reverse.", node.shape.length > 0 && ` The seed has the type of ${L(n)}, ${typeOf(node)}.`)] };
  if (st.end) {
    const held = t.nodes.filter((m) => m.held).slice(0, 6).map((m) => `${L(m.id)} holds ${said(m.held)}`);
    return { title: "All gradients are known", say: [p("Every path from an input to ", it, " has brought its share."), held.length > 0 && p(`Gradients were not zero before this pass: .grad of ${held.join(", ")}.`)] };
  }
  const up = node.outputs ? undefined : gradAt(ix, st, n), sums = ins.filter(([, i]) => st.arrived.get(i) === st.at).map(([e, i]) => {
    const [had, now] = around(ix, i), c = e.contribution, plain = isScalar(c) && isScalar(up) && e.local && "v" in e.local;
    return plain ? [short(e.from), `${text(up.v)} × ${text(e.local.v)} = `, text(c.v), had && !ix.assign ? `${text(had.v)}${plus(c.v)} = ` : "", text(now.v)]   : [short(e.from), e.local?.gain !== undefined ? `${said(up, 3)} × ${text(e.local.gain, 3)} = ` : `${rule(e, 16)} `, said(c, 3), "", had && said(now, 3)];
  });
  const outs = ix.awaited[n].length, wait = outs > 1 ? `All ${outs} contributions to ${L(n)} are in, so its gradient is final. ` : outs ? `The only contribution to ${L(n)} is in. ` : "";
  return { title: `${L(n)} passes its gradient on`, say: [p(wait, node.outputs ? "Its rule makes one gradient for each input" : ["Each input gets ", b(said(up), "g"), " times the local derivative on its edge"], ix.assign ? ", and what arrives overwrites what was there." : sums.some((s) => s[3]) ? ", and what arrives is added." : ".")], sums };
}
const plus = (v) => (num(v) < 0 ? " − " : " + ") + text(abs(num(v)));

/** Contributions to one node as arms of a river that join: width is size, negative ones hatched and below the line. */
export function confluence(ix, st, n, k = 0, index) {
  const { t } = ix, mine = armsOf(ix, n, k), one = (q) => (q && index ? { v: elementOf(q, index) } : q), grad = one(portsOf(t.nodes[n])[k].grad), now = one(gradAt(ix, st, n, k));
  let arms = mine.map((i) => { const e = t.edges[i], c = one(e.contribution), s = size(c), v = isScalar(c) ? num(c.v) : s; return { i, e, c, v, s: finite(s) ? s : 0, minus: v < 0, on: st.arrived.has(i), name: `through ${fit(ix.label[e.to], 12)}` }; });
  if (!arms.length) return p(n === t.root && ix.backward ? `This is where backward starts: its gradient is the seed, ${said(ix.seed)}.` : ix.backward ? "∅ none: nothing is sent to it." : "Backward has not run.");
  if (arms.length > ARMS) {
    const big = new Set([...arms].sort((a, c) => c.s - a.s).slice(0, ARMS - 1)), rest = arms.filter((a) => !big.has(a)), v = rest.reduce((s, a) => s + a.v, 0);
    arms = [...big, { v, s: abs(v) || 0, minus: v < 0, on: rest.every((a) => a.on), name: `${rest.length} more` }];
  }
  const turn = (a) => (a.e ? mine.indexOf(a.i) : Infinity), slot = (a) => max(34, a.h), scale = 84 / (arms.reduce((s, a) => s + a.s, 0) || 1);
  arms.sort((a, c) => a.minus - c.minus || turn(a) - turn(c)).forEach((a) => { a.h = max(2, a.s * scale); });
  const total = (f) => arms.reduce((s, a) => s + f(a), 0), high = (minus) => total((a) => (a.minus === minus ? a.h : 0)), up = high(false), all = up + high(true), free = arms.length > 1 ? max(6, (160 - total(slot)) / (arms.length - 1)) : 0, H = max(176, 16 - free + total((a) => slot(a) + free)), zero = (H - all) / 2 + up, full = arms.every((a) => a.on), middle = zero - up + all / 2, out = [];
  let y = arms.length > 1 ? 8 : (H - slot(arms[0])) / 2, y1 = zero - up;
  for (const a of arms) {
    const c = y + slot(a) / 2, y0 = c - a.h / 2, { e } = a, d = `M146 ${y0}C194 ${y0} 194 ${y1} 242 ${y1}v${a.h}C194 ${y1 + a.h} 194 ${y0 + a.h} 146 ${y0 + a.h}z`, g = e && one(gradAt(ix, st, e.to));
    const by = e && (index ? stretch(ix, e, index) : isScalar(a.c) ? e.local?.v : undefined);
    let how = by !== undefined ? `${isScalar(g) ? text(g.v, 3) : "?"} × ${st.known.has(e.to) ? text(by, 3) : "?"}${a.on ? ` = ${said(a.c, 3)}` : ""}` : !a.on ? "?" : e ? said(a.c, 3) : text(a.v, 3);
    if (how.length > 20 && a.on) how = "= " + said(a.c, 3);
    out.push(el("path", { d, class: a.on ? "arm on" : "arm" }), a.minus && a.on && el("path.minus", { d }), el("text.arm-to.end", { x: 138, y: c - 3 }, a.name), el("text", { x: 138, y: c + 14, class: a.on ? "arm-n end on" : "arm-n end", style: how.length > 17 && "font-size:11px" }, how));
    y += slot(a) + free; y1 += a.h;
  }
  if (up && all > up && isScalar(grad)) {
    const net = num(grad.v) * scale;
    out.push(el("path.zero", { d: `M142 ${zero}H256` }), full && el("rect.net", { x: 242, y: min(zero, zero - net), width: 10, height: abs(net) }));
  }
  const s = !now ? "·" : isScalar(now) ? short(now.v, 8) : said(now, 3);
  out.push(el("text", { x: 258, y: middle + 8, class: `river-sum${now ? (isBad(now) ? " bad" : " on") : ""}${isWrong(t.nodes[n]) && full ? " wrong" : ""}`, style: `font-size:${s.length < 5 ? 27 : s.length < 6 ? 22 : s.length < 8 ? 16 : s.length < 9 ? 14 : 11}px` }, s), now && !full && el("text.arm-to", { x: 259, y: middle + 26 }, "so far"));
  return el("svg.river", { viewBox: `0 0 328 ${H}`, role: "img", "aria-label": `${arms.map((a) => `${text(a.v)} ${a.name}`).join(", ")}; together ${said(grad)}` }, out);
}

/** Below the river: the sum as a line, and what assigning would have left. */
function under(ix, st, n, out, index) {
  const one = (q) => (q && index ? { v: elementOf(q, index) } : q), node = portsOf(ix.t.nodes[n])[out], grad = one(node.grad), arms = armsOf(ix, n, out), cs = arms.map((i) => one(ix.t.edges[i].contribution));
  if (cs.length < 2 || !arms.every(st.came) || !cs.every(isScalar) || !isScalar(grad)) return "";
  if (node.right) return p(isWrong(node) ? `Assigned, not added: ${text(node.grad.v)} is left, and ${text(node.right.v)} is right.` : "Here it makes no difference.");
  return p(cs.length < 6 && el("span.mono", cs.reduce((s, c, k) => s + (k ? plus(c.v) : text(c.v)), "") + ` = ${text(grad.v)}. `), `Added, not assigned: assigning would leave ${text(cs.at(-1).v)}.`);
}

const brief = (list) => (list.length > 9 ? [...list.slice(0, 4), `… ${list.length - 7} …`, ...list.slice(-3)] : list);
/** The product of the local derivatives along every path, where there are few. */
export const pathTable = (ix, ways) => ways.some((w) => w.factors) && el("table.sums.paths", el("caption.sr", "Products along every path"), ways.map((w) => el("tr", head(brief(w.nodes.map((m) => ix.label[m])).join(" → ")), w.factors && el("td", brief(w.factors).join(" × ") + " = ", b(text(w.product), "g")))));

/** The lines around the one that wrote a node. */
export function source(ix, n) {
  const at = ix.t.nodes[n]?.at, src = at && ix.t.sources?.[at[0]];
  if (!src) return "";
  const k = at[1] - src.first, from = max(0, min(k - 2, src.text.length - 5)), lines = src.text.slice(from, from + 5), pad = String(src.first + from + 4).length, name = lineOf(ix, n), left = min(...lines.map((s) => (s.trim() ? s.search(/\S/) : 99)));
  return el("figure", el("figcaption", name), el("pre.code", { tabindex: 0, "aria-label": name }, lines.map((s, i) => el(i + from === k ? "span.ln.here" : "span.ln", `${src.first + from + i}`.padStart(pad) + "  " + clean(s.slice(left)) + "\n"))));
}

/** A tensor's value or gradient, larger, with its numbers; a press on an element picks it. */
function large(q, node, c, name, at, choose) {
  if (!q || isScalar(q) || !node.shape.length) return "";
  const f = facts(q, node.shape), part = (n, word) => n > 0 && `, ${many(n)} ${word}`;
  const { cols } = f, rows = f.grid.length / cols, able = f.grid.length === f.n && "v" in q, cut = (k, n, room) => floor((room * k) / n);
  const press = ({ offsetX, offsetY, currentTarget: { clientWidth: w } }) => { const y = (328 * offsetY) / w - 2; if (y >= 0 && y < 44) choose(floor((rows * y) / 44) * cols + min(cols - 1, floor((cols * offsetX) / w))); };
  const [r, k] = [floor(at / cols), at % cols], mark = able && at >= 0 && el("rect.here", { x: cut(k, cols, 328), y: 2 + cut(r, rows, 44), width: cut(k + 1, cols, 328) - cut(k, cols, 328), height: cut(r + 1, rows, 44) - cut(r, rows, 44) });
  return el("div.large", el(able ? "svg.able" : "svg", { viewBox: "0 0 328 60", "aria-hidden": "true", ...(able && { onclick: press }) }, strip(f, 0, 2, c, 328, 44), mark), el("small", `${name}: ${text(f.n)} elements, norm ${text(f.norm)}`, "min" in q && `, ${text(q.min, 3)} to ${text(q.max, 3)}`, part(f.zero, "zero"), part(f.nan, "NaN"), part(f.inf, "infinite")));
}

/** How the gradient of a node comes together, or that of one element, and its strips. */
export function about(ix, st, n) {
  const node = ix.t.nodes[n], { shape } = node, S = ix.ui, many = !node.outputs && st.known.has(n) && Array.isArray(node.value?.v) ? facts(node.value, shape).n : 0;
  const host = el("section.join"), find = many > 0 && el("input", { type: "number", min: 0, max: many - 1, placeholder: `0 … ${many - 1}`, "aria-label": `Element of ${ix.label[n]}, counted from 0`, oninput: () => choose(find.value === "" ? -1 : +find.value) }), chosen = el("span.mute"), parts = el("div");
  const choose = (at) => { S.at = at >= 0 && at < many && Number.isInteger(at) ? at : -1; if (+find.value !== S.at || find.value === "") find.value = S.at < 0 ? "" : S.at; draw(); S.keep(); };
  function draw() {
    const at = many && n === S.node ? S.at : -1, index = at < 0 ? undefined : indexAt(shape, at);
    fill(chosen, !index ? "or press one below" : `${fit(ix.label[n], 12)}[${index.join(", ")}]`);
    fill(parts, index && element(ix, n, index), portsOf(node).slice(0, 4).map((port, k) => [el("h3", "How the gradient of ", el("b.mono", ix.label[n] + (node.outputs ? "." + k : index ? `[${index.join(", ")}]` : "")), " comes together"), confluence(ix, st, n, k, index), el("div.note", under(ix, st, n, k, index)), st.end && index && n !== ix.t.root && pathTable(ix, waysOf(ix, n, index)), st.known.has(n) && large(port.value, port, "v", "value", at, choose), st.end && large(port.grad, port, "g", "gradient", at, choose)]));
  }
  if (many && n === S.node && S.at >= 0) find.value = S.at;
  draw();
  return fill(host, many > 0 && el("label.by", "Element ", find, chosen), parts);
}
/** How an element of a value was computed. */
function element(ix, n, index) {
  const { t } = ix, node = t.nodes[n], at = (m) => elementOf(t.nodes[m].value, index), plain = ix.ins[n].some((i) => stretch(ix, t.edges[i], index) !== undefined) && ix.ins[n].every((i) => at(t.edges[i].from) !== undefined);
  return p("Its value is ", plain && el("span.mono", formula(ix, n, (m) => text(at(m))), " = "), b(text(at(n)), "v"), ".");
}

/** Fills the panel for a frame; returns the same in one line for those who listen. */
export function panel(host, ix, st, picked, toggle) {
  const { title, say, sums = [] } = words(ix, st), f = st.frame, { t } = ix, { end, ahead } = st, phase = { forward: "Forward", end: "Result", note: "Note" }[f.kind] ?? "Backward", step = end || f.kind === "note" ? "" : ` step ${f.part} of ${f.of}`, checks = (end && t.checks) || [];
  fill(host, el("div.step." + f.kind, b(phase), step), el("h2", title), say, !isNode(f.item) && el("button", { onclick: () => toggle(+f.item.slice(1)) }, "Open it"),
    sums.length > 0 && el("table.sums", sums.slice(0, MANY).map((r) => el("tr", head(r[0]), el("td", r[1], b(r[2], ahead ? "" : "g")), !ahead && el("td.to", r[4] && [r[3] || "→ ", b(r[4], "g")])))), sums.length > MANY && p(`and ${sums.length - MANY} more`),
    checks.length > 0 && el("table.sums", el("tr", ["", "backward", "differences", ""].map((h) => el("td", h))), checks.slice(0, MANY).map((c) => el("tr", head(`d${ix.label[t.root]}/d${ix.label[c.node]}`, c.index?.length && `[${c.index}]`), el("td", b(text(c.analytic), "g")), el("td", b(text(c.numeric, 6))), el(c.ok ? "td.to.ok" : "td.to.bad", c.skipped ? `· ${c.skipped}` : c.ok ? "✓ same" : "✗ differs")))),
    end && picked !== t.root && pathTable(ix, waysFrom(ix, picked) ?? []), about(ix, st, picked), !end && source(ix, isNode(f.item) ? f.item : f.nodes[0]));
  return `${phase}${step}. ${title}. ${say.map((x) => (x ? x.textContent : "")).join(" ")} ${sums.map((r) => r.join(" ")).join(". ")}`;
}
