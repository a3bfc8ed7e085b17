// The one helper for elements, HTML or SVG: el("b.mono.v", { title: "…" }, "text", more). Text only ever goes in as text.
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "text", "tspan", "circle", "defs", "marker", "title"]);

export function el(what, attrs, ...kids) {
  const [tag, ...classes] = what.split("."), n = SVG_TAGS.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  if (attrs?.constructor !== Object) { kids.unshift(attrs); attrs = {}; }
  if (classes.length) n.setAttribute("class", classes.join(" "));
  n.append(...kept(kids));
  return set(n, attrs);
}
/** Attributes, and handlers whose names begin with "on". */
export function set(n, attrs) {
  for (const [k, v] of Object.entries(attrs)) if (k.startsWith("on")) n.addEventListener(k.slice(2), v); else if (v !== false && v != null) n.setAttribute(k, v === true ? "" : v);
  return n;
}
/** Children without the empty ones. */
const kept = (kids) => kids.flat(9).filter((c) => c != null && c !== false && c !== "");
export function fill(host, ...kids) { host.replaceChildren(...kept(kids)); return host; }
export const byId = (id) => document.getElementById(id);
