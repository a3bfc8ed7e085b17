import { el } from "./dom.js";
import { text, facts, isScalar, portsOf, typeOf, lineOf } from "./story.js";
import { scopeOf } from "./table.js";

/** Words over name, op, scope, type, line; and op: shape: grad: value: line: scope: order: #7. All must hold. */
export function matcher(ix, query) {
  const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map((w) => {
    const [, key, want] = /^(op|shape|grad|value|line|scope|order):(.*)$/.exec(w) ?? [], node = (n) => ix.t.nodes[n];
    if (w[0] === "#") return (n) => n === +w.slice(1);
    if (!key) return (n) => [ix.label[n], node(n).op, scopeOf(ix, n), typeOf(node(n)), lineOf(ix, n)].some((s) => s.toLowerCase().includes(w));
    const glob = new RegExp("^" + want.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*") + "$");
    const state = (q, shape) => {
      const f = q && facts(q, shape);
      return want === "none" ? !q : !!f && ({ 0: f.n > 0 && f.zero === f.n, nan: f.nan > 0, inf: f.inf > 0 }[want] ?? (isScalar(q) && text(q.v) === want));
    };
    const any = (n, of) => portsOf(node(n))[want === "none" ? "every" : "some"]((p) => state(of(p), p.shape));
    return { op: (n) => glob.test(node(n).op), shape: (n) => glob.test(node(n).shape.join("x")), scope: (n) => scopeOf(ix, n).toLowerCase().includes(want), line: (n) => lineOf(ix, n).endsWith(":" + want), grad: (n) => any(n, (p) => p.grad), value: (n) => any(n, (p) => p.value),
       order: (n) => (want[0] === ">" ? n > +want.slice(1) : want[0] === "<" ? n < +want.slice(1) : n === +want) }[key];
  });
  return (n) => tests.every((f) => f(n));
}

/** What stands above the table: search, which columns, copies. */
export function tools({ ix, list, lines, hidden, names }) {
  const count = el("span.mute", { "aria-live": "polite" }), total = ix.t.nodes.length, find = el("input", { type: "search", placeholder: "name, op:matmul, grad:0 …", "aria-label": "Search (/)", oninput: list });
  const copy = (name, said) => el("button", { onclick: () => navigator.clipboard?.writeText(said()).then(() => { count.textContent = "copied"; }) }, name);
  const markdown = () => { const [head, ...rest] = lines().map((r) => `| ${r.map((c) => c.replaceAll("|", "\\|")).join(" | ")} |`); return [head, head.replace(/[^|]+/g, " --- "), ...rest].join("\n"); };
  const menu = el("details.menu", el("summary", "Columns"), el("div", names.slice(2).map((name) => el("label", el("input", { type: "checkbox", checked: !hidden.has(name), onchange: () => { if (!hidden.delete(name)) hidden.add(name); list(); } }), name))));
  return {
    parts: el("div.tools", find, count, el("span.grow"), menu, copy("Copy as TSV", () => lines().map((r) => r.join("\t")).join("\n")), copy("as Markdown", markdown)),
    test: () => matcher(ix, find.value), focus: () => find.focus(), count(n) { count.textContent = `${n === total ? "" : n.toLocaleString("en") + " of "}${total.toLocaleString("en")} nodes`; },
  };
}
