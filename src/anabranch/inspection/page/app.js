import { el, fill, set, byId } from "./dom.js";
import { ceil, max, min } from "./math.js";
import { indexOf, framesOf, stateAt, overwritten, canOverwrite, text, clean, isScalar, isLeaf, typeOf, formula, said, many, scopeName } from "./story.js";
import { isNode } from "./layout.js";
import { scene, thumbs } from "./scene.js";
import { panel, about, source, b, head } from "./panel.js";

const ICONS = { first: "M3 3v10M13 3L5 8l8 5z", prev: "M12 3L4 8l8 5z", next: "M4 3l8 5l-8 5z", play: "M5 2.5l8.5 5.5L5 13.5z", pause: "M4.5 3h2.2v10H4.5zM9.3 3h2.2v10H9.3z" };
const page = document.documentElement, icon = (id, name = id, said) => fill(set(byId(id), { "aria-label": said }), el("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, el("path", { d: ICONS[name] })));

/** Opens the page with these views beside the story: name to a function that fills a section. */
export async function start(views) {
  const raw = byId("trace"), packed = () => new Blob([Uint8Array.from(atob(raw.textContent), (c) => c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("deflate"));
  const t = JSON.parse(raw.dataset.packed ? await new Response(packed()).text() : raw.textContent);
  if (t.format === "anabranch-trace" && t.version === 1) return run(t, views);
  document.body.dataset.view = "none";
  fill(byId("main"), el("p.empty", `This page cannot read this trace. It reads version 1 of anabranch-trace; this is version ${t.version} of ${t.format}.`));
}

function run(t, { tools, ...makers }) {
  const ask = Object.fromEntries(new URLSearchParams(location.hash.slice(1))), base = indexOf(t), scopes = t.scopes ?? [], fold = scopes.length > 1 && t.nodes.length > 60;
  const S = { at: +(ask.at ?? -1), open: new Set(ask.open ? ask.open.split(",").map(Number) : fold ? [] : scopes.map((s) => s.id)), each: ask.each === "1", assign: false, dir: ask.dir, k: 0 };
  base.ui = S;
  let ix = base, frames = framesOf(ix, S.open), film, st;
  ix.last = stateAt(ix, frames, frames.length - 1);
  const first = t.nodes.find((n) => n.requires_grad && isLeaf(n))?.id ?? t.order.forward[0];
  S.node = t.nodes[ask.node]?.id ?? ix.label.indexOf(ask.node);
  if (S.node < 0) S.node = first;
  if (ask.theme) page.dataset.theme = ask.theme;
  byId("title").textContent = clean(t.title ?? "graph");
  fill(byId("at"), t.nodes.filter((n) => n.op === "input" && isScalar(n.value) && n.id !== t.root).slice(0, 4).map((n) => [el("bdi", ix.label[n.id]), ` = ${text(n.value.v)}   `]));

  const side = byId("panel"), follow = (n) => { if (n !== S.node) S.at = -1; S.node = n; S.finding = null; show(); }, turnTo = (v) => { stop(); S.view = v; show(); };
  const brief = ({ op, value, grad }, n) => [["op", isLeaf({ op }) ? op : formula(ix, n)], ["value", b(said(value), "v")], ["gradient", b(grad || !ix.backward ? said(grad) : "∅ none", "g")]];
  const aside = (n) => fill(side, el("div.step", `node ${n} of ${many(t.nodes.length)}, ${typeOf(t.nodes[n])}`), el("h2.mono", ix.label[n]), el("table.sums", brief(t.nodes[n], n).map(([k, v]) => el("tr", head(k), el("td.to", v)))), about(base, base.last, n), makers.why && el("button", { onclick: () => turnTo("why") }, "Why?"), source(base, n));
  const ctx = { ix, follow, aside, tools, panel: (...kids) => fill(side, kids), ask: (f) => { S.finding = f; S.node = f.about ?? f.node ?? S.node; turnTo("why"); } };
  const view = scene(byId("stage"), t.layout, { pick: follow, toggle }), others = { table: { show: aside } };
  for (const [name, make] of Object.entries(makers)) {
    const host = byId(name) ?? el("section", { id: name, "aria-label": name, hidden: true });
    side.before(host);
    others[name] = make(host, ctx);
  }
  const names = ["story", ...Object.keys(others)], tabs = names.map((v) => el("button", { onclick: () => turnTo(v), title: v[0].toUpperCase() }, v[0].toUpperCase() + v.slice(1)));
  fill(byId("views"), tabs);
  S.view = names.includes(ask.view) ? ask.view : "story";

  /** Opens or closes a group; the frame stays at what it was about. */
  function toggle(s) {
    const { kind, nodes: [node] } = frames[S.k];
    if (!S.open.delete(s)) S.open.add(s);
    build();
    const k = frames.findIndex((f) => f.kind === kind && f.nodes.includes(node));
    S.k = k < 0 ? S.k : k;
    show(true);
    view.focus("s" + s);
  }
  /** Frames, picture and film for what is open. */
  function build() {
    ix = S.assign ? { ...indexOf(overwritten(t)), assign: true, ui: S } : base;
    frames = framesOf(ix, S.open, S.each);
    S.k = min(S.k, last());
    view.arrange(ix, S.open, S.dir);
    const every = ceil(frames.length / 40), draw = thumbs(ix, t.layout, S.open);
    film = frames.map((f, i) => {
      if (i % every && i !== last()) return null;
      const name = f.kind === "end" ? "result" : f.kind === "seed" ? "seed" : isNode(f.item) ? ix.name[f.item] : scopeName(ix, f.item);
      return el("li", el("button.frame", { onclick: () => go(i), "aria-label": `Frame ${i + 1} of ${frames.length}: ${f.kind} ${name}` }, draw(stateAt(ix, frames, i)), el("span", name.length > 8 && /[./]/.test(name) ? "…" + name.slice(-7) : name)));
    });
    fill(byId("film"), Object.entries({ Forward: ["forward"], Backward: ["seed", "backward"], Result: ["end", "note"] }).map(([name, kinds]) => { const mine = film.filter((li, i) => li && kinds.includes(frames[i].kind)); return mine.length > 0 && el(`section.act.${name}`, { style: `--n:${mine.length}` }, el("h3", name), el("ol", mine)); }));
    byId("scrub").hidden = every === 1;
    byId("scrub").max = last();
  }
  const last = () => frames.length - 1;
  function show(moved) {
    document.body.dataset.view = S.view;
    names.forEach((v, i) => { set(tabs[i], { "aria-pressed": String(v === S.view) }); byId(v).hidden = v !== S.view; });
    if (S.view === "story") story(moved);
    else others[S.view].show(S.node, S.finding);
    S.keep();
  }
  /** What is seen stands in the address. */
  S.keep = () => {
    if (location.protocol === "about:") return;
    const q = { view: S.view, frame: S.k, node: S.node, theme: page.dataset.theme, dir: S.dir, each: S.each ? 1 : null, at: S.at < 0 ? null : S.at, open: fold ? [...S.open].join() : null };
    history.replaceState(0, "", "#" + new URLSearchParams(Object.entries(q).filter(([, v]) => v != null)));
  };
  function story(moved) {
    st = stateAt(ix, frames, S.k);
    view.paint(ix, st, S.node);
    byId("live").textContent = panel(side, ix, st, S.node, toggle);
    if (moved) { view.drops(); if (!st.end) view.reveal(st.frame.item); }
    let at = S.k;
    while (!film[at]) at--;
    film.forEach((li, i) => {
      if (!li) return;
      li.className = i === at ? "at" : i < at ? "past" : "";
      set(li.firstChild, { tabindex: i === at ? 0 : -1, "aria-current": i === at ? "step" : "false" });
    });
    film[at].scrollIntoView({ block: "nearest", inline: "nearest" });
    byId("first").disabled = byId("prev").disabled = S.k === 0;
    byId("next").disabled = S.k === last();
    byId("scrub").value = S.k;
  }
  function go(i, playing) { if (!playing) stop(); S.k = max(0, min(last(), i)); show(true); }
  function stop() { clearInterval(S.timer); S.timer = 0; icon("play", "play", "Play (Space)"); }
  function play() {
    if (S.timer) return stop();
    if (S.k === last()) go(0);
    icon("play", "pause", "Pause (Space)");
    S.timer = setInterval(() => (S.k === last() ? stop() : go(S.k + 1, true)), 1700);
  }
  function turn() { page.dataset.theme = (page.dataset.theme ?? (matchMedia("(prefers-color-scheme:dark)").matches ? "dark" : "light")) === "dark" ? "light" : "dark"; show(); }
  /** ↑ ↓: in the table a row; on the stage the node before or after, by order. */
  function step(by) {
    if (others[S.view]?.move) return others[S.view].move(by);
    if (S.view !== "story" || !byId("stage").contains(document.activeElement)) return false;
    const order = t.order.forward.filter(view.has);
    S.node = order[max(0, min(order.length - 1, order.indexOf(S.node) + by))] ?? S.node;
    show();
    view.focus(S.node);
  }
  Object.entries({ first: () => go(0), prev: () => go(S.k - 1), next: () => go(S.k + 1), play, theme: turn, "help-open": () => byId("help").showModal() }).forEach(([id, act]) => { byId(id).onclick = act; if (ICONS[id]) icon(id); });
  byId("scrub").oninput = (e) => go(+e.target.value);
  for (const id of ["each", "assign"]) { byId(id).checked = S[id]; byId(id).onchange = (e) => { S[id] = e.target.checked; build(); show(); }; }
  byId("assign").parentNode.hidden = !canOverwrite(t); byId("each").parentNode.hidden = !ix.backward;
  addEventListener("keydown", (e) => {
    const typing = e.target.matches("input, summary") && e.key !== "Escape", key = e.key.length === 1 ? e.key.toLowerCase() : e.key, at = { s: "story", t: "table", g: "gradients", w: "why" }[key];
    if (e.ctrlKey || e.metaKey || e.altKey || byId("help").open || typing) return;
    const act = { ArrowDown: () => step(1), ArrowUp: () => step(-1), "[": () => others.why?.next(-1), "]": () => others.why?.next(1), d: turn, "?": () => byId("help").showModal(), "/": others.table.search && (() => { turnTo("table"); others.table.search(); }), Escape: () => { e.target.blur(); follow(first); },
      ...(S.view === "story" && { ArrowRight: () => go(S.k + 1), ArrowLeft: () => go(S.k - 1), Home: () => go(0), End: () => go(last()), " ": !e.target.matches("button") && play, "+": () => view.zoom(1.2), "-": () => view.zoom(1 / 1.2), 1: view.whole, f: () => view.zoom() }),
    }[key] || (names.includes(at) && (() => { S.finding = null; turnTo(at); }));
    if (!act) { if (S.timer) stop(); } else if (act() !== false) e.preventDefault();
  });
  let wait = 0;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => { view.arrange(ix, S.open, S.dir); show(); }, 80); });
  addEventListener("beforeprint", () => { others.table.show(S.node); byId("table").hidden = false; });
  addEventListener("afterprint", () => show());
  build();
  S.k = max(0, min(last(), +ask.frame || 0));
  show();
  if (S.view === "story" && S.k) view.reveal(frames[S.k].item, true);
  if (!ask.view && !ask.frame) others.why?.open();
}
