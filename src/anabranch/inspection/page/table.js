import { el, fill, kept } from "./dom.js";
import { floor, max, min } from "./math.js";
import { num, text, clean, size, isScalar, isLeaf, portsOf, typeOf, formula, said, sent, pathOf, lineOf } from "./story.js";

const VIRTUAL = 500, ROW = 36;
export const scopeOf = (ix, n) => pathOf(ix, n).slice(1).map((s) => clean(ix.t.scopes[s].name)).join("/");
const gain = (ix, n) => max(-1, ...ix.awaited[n].map((i) => num(ix.t.edges[i].local?.gain ?? -1)));
const rank = (q) => (isScalar(q) ? num(q.v) : q ? size(q) : -Infinity);
// heading: [what is shown, class, what is sorted by]
const COLUMNS = Object.entries({
  "#": [(ix, n) => String(n), "mute r", (ix, n) => n],
  name: [(ix, n) => ix.label[n], "mono"],
  op: [(ix, n) => (isLeaf(ix.t.nodes[n]) ? ix.t.nodes[n].op : formula(ix, n)), "mono"],
  type: [(ix, n) => typeOf(ix.t.nodes[n]), "mono mute"],
  value: [(ix, n) => portsOf(ix.t.nodes[n]).map((p) => said(p.value)).join(" ; "), "v r", (ix, n) => rank(ix.t.nodes[n].value)],
  gradient: [(ix, n) => portsOf(ix.t.nodes[n]).map(({ grad }) => (grad ? said(grad) : ix.backward ? "∅" : "·")).join(" ; "), "g r", (ix, n) => rank(ix.t.nodes[n].grad)],
  contributions: [arms, "mono", (ix, n) => ix.awaited[n].length],
  gain: [(ix, n) => (gain(ix, n) < 0 ? "" : "×" + text(gain(ix, n), 3)), "mono r", gain],
  scope: [scopeOf, "mute"],
  line: [lineOf, "mute"],
});
function arms(ix, n) {
  if (n === ix.t.root && ix.backward) return "seed";
  const all = ix.awaited[n].map((i) => ix.t.edges[i]).map((e) => `${isScalar(e.contribution) ? sent(e) : said(e.contribution, 3)} through ${ix.label[e.to]}`);
  return all.slice(0, 4).join(" + ") + (all.length > 4 ? ` + ${all.length - 4} more` : "");
}

/** The equal twin of the picture: sorted by a click on a heading; above 500 rows only those in sight. `tools` bring search and copies. */
export function table(host, { ix, follow, aside, tools }) {
  const filled = (k) => k < 6 || ix.t.nodes.some((n) => COLUMNS[k][1][0](ix, n.id)), hidden = new Set(COLUMNS.filter((_, k) => !filled(k)).map(([name]) => name)), columns = () => COLUMNS.filter(([name]) => !hidden.has(name)), names = () => columns().map(([name]) => name);
  let rows = [], picked = 0, sort = 0, back = false;
  const lines = () => [names(), ...rows.map((n) => columns().map(([, c]) => c[0](ix, n)))], bar = tools?.({ ix, list, lines, hidden, names: COLUMNS.map(([name]) => name) });
  const body = el("tbody"), head = el("tr"), grid = el("div.grid", el("table.nodes", el("caption.sr", "Nodes"), el("thead", head), body));
  fill(host, bar?.parts, grid);
  grid.addEventListener("scroll", () => rows.length > VIRTUAL && draw(), { passive: true });
  function list() {
    const [show, , key = show] = COLUMNS[sort][1], keys = ix.t.nodes.map((_, n) => key(ix, n));
    rows = ix.t.nodes.map((n) => n.id).filter(bar?.test() ?? (() => true)).sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0) * (back ? -1 : 1) || a - b);
    bar?.count(rows.length);
    fill(head, COLUMNS.map(([name, c], k) => !hidden.has(name) && el("th", { scope: "col", class: c[1].endsWith("r") && "r", "aria-sort": sort === k && (back ? "descending" : "ascending") }, el("button", { onclick: () => { back = sort === k && !back; sort = k; list(); } }, name, sort === k && (back ? " ↓" : " ↑")))));
    draw();
  }
  function draw() {
    const long = rows.length > VIRTUAL, from = long ? max(0, floor(grid.scrollTop / ROW) - 20) : 0, upto = long ? min(rows.length, from + 80) : rows.length, space = (k) => k > 0 && el("tr", { "aria-hidden": "true", style: `height:${k * ROW}px` });
    fill(body, space(from), rows.slice(from, upto).map((n, k) => el("tr", { class: n === picked && "here", "data-n": n, tabindex: n === picked || (!k && !rows.includes(picked)) ? 0 : -1, onclick: () => follow(n), onkeydown: (e) => e.key === "Enter" && follow(n) },
      columns().map(([name, c]) => { const said = c[0](ix, n); return el(name === "name" ? "th" : "td", { class: /^[vg] /.test(c[1]) && /NaN|∞/.test(said) ? "bad r" : c[1], scope: name === "name" && "row" }, said); }))), space(rows.length - upto));
  }
  return {
    show(n) { picked = n; list(); aside(n); },
    move(by) {
      const n = rows[rows.indexOf(picked) + by];
      if (n === undefined) return;
      follow(n);
      if (rows.length > VIRTUAL) { grid.scrollTop = max(0, rows.indexOf(n) * ROW - 200); draw(); }
      const row = body.querySelector(`[data-n="${n}"]`);
      row.focus(); row.scrollIntoView({ block: "nearest" });
    },
    search: bar?.focus,
  };
}
