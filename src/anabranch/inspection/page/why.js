import { el, fill } from "./dom.js";
import { abs } from "./math.js";
import { num, text, clean, facts, isScalar, isLeaf, portsOf, said, rule, formula, typeOf, waysFrom, lineOf } from "./story.js";
import { p, b, confluence, source, pathTable } from "./panel.js";

const HEAD = { "first-nan": "First value that is not a number", "first-inf": "First value that is infinite", nan: "NaN that does not reach the result", inf: "Infinity that does not reach the result", "zero-gradient": "The gradient is exactly 0", "no-gradient": "There is no gradient", "bad-gradient": "The gradient is not finite",
  gradient: "How the gradient came about", value: "How the value was computed", vanishing: "The gradient vanishes", exploding: "The gradient explodes", "unused-parameter": "Not used", absorbed: "0 met an infinite derivative" };

/** The finding that speaks of a node, or what the trace says by itself. */
function findingFor(ix, n) {
  const { t } = ix, node = t.nodes[n], all = t.findings ?? [], own = all.find((f) => f.about === n) ?? all.find((f) => f.node === n) ?? all.find((f) => f.reaches_root && f.reaches?.includes(n));
  if (own) return own;
  const gs = portsOf(node).flatMap((p) => (p.grad ? [facts(p.grad, p.shape)] : [])), g = gs.length > 0, many = ix.awaited[n].length, kind = !g ? "no-gradient" : gs.some((f) => f.broken) ? "bad-gradient" : gs.every((f) => f.n && f.zero === f.n) ? "zero-gradient" : "gradient";
  const first = all.find((f) => f.kind.startsWith("first-"));
  if (kind === "bad-gradient" && first) return { ...first, kind, about: n };
  const reason = !ix.backward ? "Backward has not run." : n === t.root ? `Backward starts here: the gradient is the seed, ${said(ix.seed)}.` : kind === "bad-gradient" ? "A value that is not finite has reached it." : kind === "zero-gradient" ? `Every contribution to ${ix.label[n]} is 0, or they cancel.` : g ? `The gradient is the sum of ${many === 1 ? "one contribution" : many + " contributions"}.`
    : waysFrom(ix, n)?.length === 0 ? `No path leads from ${ix.label[n]} to ${ix.label[t.root]}.` : node.requires_grad ? "No contribution was sent to it." : "No gradient was asked for here.";
  return { kind, about: n, text: reason };
}
const tone = (q, c) => "b.mono." + (q && facts(q, []).broken ? "bad" : c);
/** From the root to a node, along the largest contributions. */
function stepsTo(ix, n) {
  const weight = ({ contribution: c }) => (c ? (isScalar(c) ? abs(num(c.v)) || 0 : num(c.norm ?? 0)) : -1), way = [n];
  while (way[0] !== ix.t.root && ix.outs[way[0]].length) way.unshift(ix.outs[way[0]].map((i) => ix.t.edges[i]).reduce((a, e) => (weight(e) > weight(a) ? e : a)).to);
  return way.map((node) => ({ node }));
}

/** Left: the way from the root, one card a step, hatched where it fails. Right: the reason, its proof, what it reaches, a way out. */
export function why(host, { ix, follow, panel, ask }) {
  const { t } = ix, found = t.findings ?? [], name = (n) => el("b.mono", ix.label[n]);
  function way(f) {
    const steps = f.steps?.length ? f.steps : stepsTo(ix, f.about ?? f.node ?? t.root), shown = steps.length > 60 ? [...steps.slice(0, 30), null, ...steps.slice(-29)] : steps;
    fill(host, el("h2", "From ", name(steps[0].node), steps.length > 1 && [" to ", name(steps.at(-1).node)]), el("ol.steps", shown.map((s, k) => {
      if (!s) return el("li.mute", `⋯ ${steps.length - 59} steps`);
      const n = t.nodes[s.node], fault = steps.some((one) => one.at_fault) ? s.at_fault : f.node === s.node && f.kind !== "gradient", next = shown[k + 1], e = next && ix.ins[s.node].map((i) => t.edges[i]).find((e) => e.from === next.node);
      return el("li", el(fault ? "button.stepcard.fault" : "button.stepcard", { onclick: () => follow(s.node) }, el("span.mono", name(s.node), isLeaf(n) ? ` ${n.op}` : ` = ${formula(ix, s.node)}`), el("small.mute", { title: lineOf(ix, s.node) }, lineOf(ix, s.node).split("/").at(-1)),
        el("span", "value ", el(tone(n.value, "v"), n.value ? said(n.value) : typeOf(n))), el("span", "gradient ", el(tone(n.grad, "g"), n.grad && !n.outputs ? said(n.grad) : s.grad !== undefined ? text(s.grad) : ix.backward ? "∅ none" : "·")), fault && el("em.bad", "▲ here")),
      e && el("div.hop.mono", "× ", e.local ? rule(e, 30) : "no derivative", e.contribution ? ["  =  ", el("span.g", said(e.contribution))] : "  ∅", e.absorbed && ` (0 × ∞ taken as 0 in ${e.absorbed})`));
    })));
  }
  function because(f, n) {
    const about = f.about ?? f.node, place = (index) => (index?.length ? `[${index.join(", ")}]` : ""), list = (ns) => [ns.slice(0, 12).map((n, k) => [k ? ", " : "", el("button.link.mono", { onclick: () => follow(n) }, ix.label[n])]), ns.length > 12 && ` and ${ns.length - 12} more`];
    panel(el(f.kind === "gradient" ? "div.step.backward" : "div.step.bad", b(f.phase === "forward" ? "Forward" : "Backward"), f.cause && ` ${clean(f.cause)}`), el("h2", HEAD[f.kind] ?? clean(f.kind), about !== undefined && [": ", el("span.mono", ix.label[about])]),
      f.text && p(clean(f.text)), f.bad && p(`${f.bad.toLocaleString("en")} of ${(f.of ?? f.bad).toLocaleString("en")} elements`, f.index?.length && `, first at ${place(f.index)}`, "."),
      f.proof?.length && el("table.sums", f.proof.map((x) => el("tr", el("th", { scope: "row" }, clean(x.label)), el("td", b(x.v !== undefined ? text(x.v) : x.summary ? said(x.summary) : "")), el("td.to", clean(x.note ?? ""))))),
      f.paths?.length ? pathTable(ix, f.paths.slice(0, 12).map((w) => ({ ...w, factors: w.factors?.map((l) => (l.length > 1 ? `(${l.map((v) => text(v)).join(" + ")})` : text(l[0]))) }))) : f.kind === "gradient" && pathTable(ix, waysFrom(ix, n) ?? []),
      num(f.more_paths ?? 0) > 0 && p(`and ${text(f.more_paths)} more paths`), f.becomes !== undefined && p("It becomes NaN at ", list([f.becomes]), "."), f.reaches?.length && p("It reaches ", list(f.reaches), f.reaches_root ? ", the result among them." : f.reaches_root === false ? ", but not the result." : "."),
      f.answers?.length && el("ul.answers", f.answers.map((a) => el("li", el(a.yes ? "b.ok" : "b.bad", a.yes ? "✓ " : "✗ "), `${clean(a.question[0].toUpperCase() + a.question.slice(1))}? `, b(a.yes ? "Yes" : "No"), el("small.mute", clean(a.evidence))))), f.hint && el("p.out", b("Way out: "), clean(f.hint)),
      f.kind === "gradient" && about !== undefined && el("section.join", confluence(ix, ix.last, about)), source(ix, f.node ?? about));
  }
  let shown;
  return {
    show(n, finding) { shown = finding ?? findingFor(ix, n); way(shown); because(shown, n); },
    /** The finding before or after the one that is shown. */
    next(by) { const k = found.indexOf(shown); if (found.length) ask(found[(k < 0 && by < 0 ? found.length - 1 : k + by + found.length) % found.length]); },
    /** Opens by itself where a value is not finite. */
    open() { const f = found.find((one) => one.kind.startsWith("first-")); if (f) ask(f); },
  };
}
