import { el, fill } from "./dom.js";
import { ceil, finite, floor, max, min, put, round } from "./math.js";
import { num, text, facts, isLeaf, portsOf, pathOf, typeOf, clean } from "./story.js";
import { scopeOf } from "./table.js";

/** Norms of several leaves step by step as one vector's, where all have as many. */
const together = (all) => (all.every((s) => s.length === all[0].length) && all[0].length ? all[0].map((_, k) => Math.hypot(...all.map((s) => num(s[k])))) : null);
/** Sizes over steps as a line on its own scale, from 0 for the lowest to 1 for the highest; logarithmic from 100 to 1 on. A cross is not finite. */
function spark(sizes) {
  const known = sizes.filter(finite), low = min(...known.filter((v) => v > 0)), top = max(...known), least = min(...known), far = top >= 100 * low, span = far ? Math.log10(top / low) : top - least;
  const X = (k) => 4 + (112 * k) / (sizes.length - 1), Y = (v) => 22 - 18 * (far ? (v > 0 ? Math.log10(v / low) / span : 0) : span ? (v - least) / span : .5);
  const d = sizes.map((v, k) => (finite(v) ? `${finite(sizes[k - 1]) ? "L" : "M"}${X(k)} ${Y(v).toFixed(1)}h0` : "")).join("");
  const last = sizes.at(-1), told = `${sizes.length} steps: from ${text(sizes[0], 3)} to ${text(last, 3)}, at most ${text(top, 3)}`;
  return el("svg.spark", { viewBox: "0 0 120 26", role: "img", "aria-label": told }, el("title", told), el("path", { d }), sizes.map((v, k) => !finite(v) && el("path.dot-bad", { d: `M${X(k) - 4} 9l8 8m0 -8l-8 8` })), finite(last) && el("circle.f-g", { cx: X(sizes.length - 1), cy: Y(last), r: 3 }));
}

/** The health of gradients: findings as sentences, the profile over depth, one row a leaf. */
export function gradients(host, { ix, follow, aside, ask }) {
  const { t } = ix, grads = t.nodes.map((n) => { const port = portsOf(n).find((p) => p.grad); return port && facts(port.grad, port.shape); }), drawn = (v) => v > 0 && finite(v);
  const leaves = t.nodes.filter((n) => isLeaf(n) && (n.grad || n.requires_grad)).map((n) => n.id), logs = grads.filter((f) => f && drawn(f.norm)).map((f) => Math.log10(f.norm));
  const lo = floor(logs.reduce((a, v) => min(a, v), 0)), hi = max(lo + 1, ceil(logs.reduce((a, v) => max(a, v), 0))), part = (log) => (log - lo) / (hi - lo);
  const sum = (key) => leaves.reduce((s, n) => s + (grads[n]?.[key] ?? 0), 0).toLocaleString("en"), power = (m) => (m ? "1e" + text(m) : "1");
  const stepped = leaves.some((n) => t.nodes[n].steps);
  const line = (name, type, v, f, act, steps) => {
    const bad = f?.broken > 0;
    return el("tr", { onclick: act }, el("th.mono", { scope: "row" }, act ? el("button", name) : name), el("td.mono.mute", type), el("td.v.r", v === undefined ? "·" : text(v)), el(bad ? "td.r.bad" : "td.r.g", !f ? "∅ none" : bad ? (f.nan ? "NaN" : "∞") : text(f.norm)),
      el("td.bar-cell", el("i", { class: bad ? "meter bad" : "meter", style: `width:${bad ? 100 : f && drawn(f.norm) ? max(2, round(100 * part(Math.log10(f.norm)))) : 0}%` })), el("td.r.mono", f && `${f.zero}/${f.n}`, f?.n && f.zero === f.n && el("b.bad", " ▲")), el("td.r.mono.mute", f && v ? text(f.norm / v, 3) : "–"), stepped && el("td", steps && spark(steps.map(num))));
  };
  const valueOf = (n) => (t.nodes[n].value ? facts(t.nodes[n].value, t.nodes[n].shape).norm : undefined), row = (n) => line(ix.label[n], typeOf(t.nodes[n]), valueOf(n), grads[n], () => follow(n), t.nodes[n].steps);
  const rooms = new Map();
  for (const n of leaves) put(rooms, (scopeOf(ix, n) || ix.label[n].split(/[./]/).slice(0, -1).join("/") || ix.label[n]).split("/")[0], n);
  /** The leaves of a scope together: norms as one vector, elements counted. */
  const room = ([name, ns]) => {
    const arrived = ns.map((n) => grads[n]).filter(Boolean), all = (key) => arrived.reduce((s, f) => s + f[key], 0);
    return line(name, ns.length === 1 ? "1 leaf" : `${ns.length} leaves`, Math.hypot(...ns.map((n) => valueOf(n) ?? 0)), arrived.length > 0 && { n: all("n"), nan: all("nan"), zero: all("zero"), broken: all("broken"), norm: Math.hypot(...arrived.map((f) => f.norm)) }, null, together(ns.map((n) => t.nodes[n].steps ?? [])));
  };
  const rows = el("tbody"), list = (by) => fill(rows, by ? [...rooms].map(room) : leaves.map(row));
  list();
  fill(host, ix.backward ? [el("ul.found", (t.findings ?? []).map((f) => f.text && el("li", el("button", { onclick: () => ask(f) }, el("b.bad", "▲ "), f.about !== undefined && el("b.mono", ix.label[f.about], " "), clean(f.text))))),
    el("h2", "Gradient norm by depth"), el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Profile" }, profile()), el("h2", "Parameters and inputs"), rooms.size > 1 && rooms.size < leaves.length && el("label.by", el("input", { type: "checkbox", onchange: (e) => list(e.target.checked) }), "by scope"),
    el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Leaves" }, el("table.nodes", el("thead", el("tr", ["name", "type", "|value|", "|gradient|", "log scale", "zero", "gradient / value", stepped && "by step"].filter(Boolean).map((h, k) => el(k < 2 || k === 4 || k > 6 ? "th" : "th.r", { scope: "col" }, h)))), rows)),
    el("p.mute", `${leaves.length} ${leaves.length === 1 ? "leaf" : "leaves"}, ${sum("n")} elements, ${sum("zero")} of them with gradient 0. The log scale goes from ${power(lo)} to ${power(hi)}.`)] : el("p.empty", "Backward has not run, so there are no gradients."));

  /** One dot an op in forward order: going left, a falling line is vanishing, a rising one exploding. */
  function profile() {
    const order = t.order.forward.filter((n) => grads[n]), every = ceil(order.length / 1500), W = 760, H = 200, X = (k) => 60 + ((W - 80) * (k + 0.5)) / max(1, order.length), Y = (log) => 16 + 148 * (1 - part(log)), gap = ceil((hi - lo) / 5), groups = new Map();
    order.forEach((n, k) => put(groups, pathOf(ix, n)[1], k));
    const turn = new Map([...groups.keys()].map((s, k) => [s, k])), named = [...groups].filter(([s]) => s !== undefined);
    const dot = (n, k) => {
      const f = grads[n], act = { onclick: () => follow(n) }, title = el("title", `${ix.label[n]}: ${text(f.norm)}`), y = Y(Math.log10(f.norm));
      if (f.broken) return el("path.dot-bad", { d: `M${X(k) - 4} 12l8 8m0 -8l-8 8`, ...act }, title);
      if (!drawn(f.norm)) return el("path.dot-zero", { d: `M${X(k) - 4} 168h8`, ...act }, title);
      const cls = turn.get(pathOf(ix, n)[1]) % 2 ? "dot alt" : "dot";
      return isLeaf(t.nodes[n]) ? el("path", { d: `M${X(k)} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5 -5.5z`, class: cls, ...act }, title) : el("circle", { cx: X(k), cy: y, r: 4, class: cls, ...act }, title);
    };
    return el("svg.profile", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Gradient norms of ${order.length} values in forward order, from ${power(lo)} to ${power(hi)}` },
      [...Array(floor((hi - lo) / gap) + 1).keys()].map((k) => lo + k * gap).map((m) => [el("path.rule", { d: `M56 ${Y(m)}H${W - 16}` }), el("text.mute.end", { x: 48, y: Y(m) + 4 }, power(m))]),
      named.length && named.length < 12 ? named.map(([s, ks]) => el("text.mute.mid", { x: (X(ks[0]) + X(ks.at(-1))) / 2, y: H - 6 }, clean(t.scopes[s].name).slice(0, 14))) : [el("text.mute", { x: 60, y: H - 6 }, "inputs"), el("text.mute.end", { x: W - 20, y: H - 6 }, "result")], order.map((n, k) => k % every === 0 && dot(n, k)));
  }
  return { show: aside };
}
