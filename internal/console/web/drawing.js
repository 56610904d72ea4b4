// A custom resource as a drawing: from left to right itself, its stages, their objects and the pods, with what waits for what as dashed lines.
// The list has the same for those who do not see the drawing.
import { element } from "./list.js";
import { button, nameOf, order, stateOf, symbols } from "./rows.js";

const namespace = "http://www.w3.org/2000/svg";
const columns = [0, 240, 480, 860];
const size = { width: 210, wide: 350, height: 24, step: 32 };
// Above this many nodes, what is healthy is left out, the pods first, and above twice as many the rest as well: a larger drawing shows nothing,
// and takes long.
const most = 400;

// healthy says that an item may be left out. What counts further pods is no node of its own.
const healthy = (i) => Boolean(i.more) || stateOf(i).kind === "good";

// selected are the items that are drawn. An object whose pods are not healthy stays with them, and what stands above others comes first, so that
// nothing is drawn that no line leads to.
export function selected(items) {
  let drawn = items;
  const above = new Set(items.filter((i) => !i.stage && !healthy(i)).map((i) => i.parent));
  for (const leave of [(i) => i.kind === "Pod" || i.more, () => true]) {
    if (drawn.length > most) drawn = drawn.filter((i) => i.stage || above.has(i.key) || !leave(i) || !healthy(i));
  }
  const stages = new Set(items.filter((i) => i.stage).map((i) => i.key));
  const depth = (i) => (i.stage ? 0 : stages.has(i.parent) ? 1 : 2);
  return [...drawn].sort((a, b) => depth(a) - depth(b)).slice(0, 2 * most);
}

// leftOut says how many of the items are not drawn, and how many of these are not healthy.
export function leftOut(items, drawn) {
  const keys = new Set(drawn.map((i) => i.key));
  const left = items.filter((i) => !keys.has(i.key));
  const bad = left.filter((i) => i.stage || !healthy(i)).length;
  if (left.length === 0) return "";
  if (bad === 0) return `${left.length} healthy objects and pods are not drawn; the list has all.`;
  return `${left.length} objects and pods are not drawn, of which ${bad} are not healthy; the list has all.`;
}

function shape(name, attributes, ...children) {
  const node = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export class Drawing {
  constructor(label) {
    this.chosen = () => {};
    this.note = element("p", { class: "note", hidden: "hidden" });
    this.edges = shape("g", { class: "edges" });
    this.nodes = shape("g", { class: "nodes" });
    const head = shape("marker", { id: "head", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto" },
      shape("path", { d: "M0,0 L8,4 L0,8 z" }));
    this.svg = shape("svg", { role: "img", "aria-label": label, tabindex: "0" }, shape("defs", {}, head), this.edges, this.nodes);
    this.node = element("div", { class: "drawing" }, element("div", { class: "bar" }, button("+", () => this.zoom(0.8), { "aria-label": "Zoom in" }),
      button("−", () => this.zoom(1.25), { "aria-label": "Zoom out" }), button("Fit", () => this.fit()),
      element("span", { class: "count" }, "dashed: waits for")), this.note, this.svg);
    this.svg.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.svg.addEventListener("pointerdown", (e) => this.grab(e));
    this.svg.addEventListener("keydown", (e) => this.key(e));
    this.nodes.addEventListener("click", (e) => this.click(e));
  }

  // show draws a tree: top is the custom resource, items its stages, objects and pods, each with key and parent.
  show(top, items) {
    const drawn = selected(items);
    const note = leftOut(items, drawn);
    this.note.hidden = note === "";
    this.note.textContent = note;
    const text = JSON.stringify([top, drawn]);
    if (this.shown === text) return;
    this.shown = text;
    const places = this.layout({ ...top, key: "stack" }, drawn);
    this.places = places;
    this.nodes.replaceChildren(...[...places.values()].map((p) => this.box(p)));
    this.edges.replaceChildren(...this.lines(places));
    if (!this.view) this.fit();
  }

  // layout gives each leaf a line of its own, and each other node the line of its first child.
  layout(root, items) {
    const children = new Map();
    for (const i of items) children.set(i.parent, [...(children.get(i.parent) ?? []), i]);
    const places = new Map();
    let line = 0;
    const place = (item, depth) => {
      const at = line;
      places.set(item.key, { item, x: columns[depth], y: at * size.step, width: depth === 2 ? size.wide : size.width });
      const below = depth + 1 < columns.length ? children.get(item.key) ?? [] : [];
      const rank = (i) => (i.stage || i.more ? order.good + 1 : order[stateOf(i).kind]);
      below.sort((a, b) => rank(a) - rank(b) || a.order - b.order);
      below.forEach((child, i) => { if (i > 0) line++; place(child, depth + 1); });
    };
    place(root, 0);
    this.extent = { width: columns[3] + size.width, height: (line + 1) * size.step };
    return places;
  }

  box({ item, x, y, width }) {
    const label = item.stage ? item.name : item.more ?? item.kind + "/" + (item.key === "stack" ? nameOf(item) : item.name);
    const { kind, word } = item.stage || item.more ? { kind: "stage", word: "" } : stateOf(item);
    const letters = Math.floor((width - 26) / 7);
    const short = label.length > letters ? label.slice(0, letters - 1) + "…" : label;
    return shape("g", { class: "node " + kind, "data-key": item.key, transform: `translate(${x},${y})` },
      shape("rect", { width, height: size.height, rx: 4 }),
      shape("text", { x: 8, y: 16 }, (symbols[kind] ?? "▪") + " " + short),
      shape("title", {}, [label, word, item.reason, item.message].filter(Boolean).join("\n")));
  }

  lines(places) {
    const out = [];
    for (const { item, x, y } of places.values()) {
      const from = places.get(item.parent);
      if (from) {
        const [a, b, c, d] = [from.x + from.width, from.y + size.height / 2, x, y + size.height / 2];
        out.push(shape("path", { class: "tree", d: `M${a},${b} C${(a + c) / 2},${b} ${(a + c) / 2},${d} ${c},${d}` }));
      }
      for (const key of item.waits ?? []) {
        const to = places.get(key);
        if (!to) continue;
        const [b, d] = [y + size.height / 2, to.y + size.height / 2];
        const bow = 18 + Math.min(60, Math.abs(d - b) / 8);
        out.push(shape("path", { class: "waits", "marker-end": "url(#head)", d: `M${x},${b} C${x - bow},${b} ${x - bow},${d} ${to.x},${d}` }));
      }
    }
    return out;
  }

  click(event) {
    const key = event.target.closest(".node")?.dataset.key;
    if (key && key !== "stack" && !this.moved) this.chosen(this.places.get(key).item);
  }

  fit() {
    const { width, height } = this.extent;
    // A high drawing begins at its top, at a size that can be read.
    const ratio = this.svg.clientHeight / (this.svg.clientWidth || 1) || 0.5;
    this.view = { x: -50, y: -10, width: width + 70, height: Math.min(height + 20, (width + 70) * ratio) };
    this.apply();
  }

  apply() {
    const { x, y, width, height } = this.view;
    this.svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
    this.svg.setAttribute("preserveAspectRatio", "xMinYMin meet");
  }

  zoom(factor, atX = 0.5, atY = 0.5) {
    const v = this.view;
    const width = Math.min(20000, Math.max(150, v.width * factor));
    const height = v.height * (width / v.width);
    this.view = { x: v.x + (v.width - width) * atX, y: v.y + (v.height - height) * atY, width, height };
    this.apply();
  }

  pan(x, y) {
    this.view = { ...this.view, x: this.view.x + x, y: this.view.y + y };
    this.apply();
  }

  wheel(event) {
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) this.zoom(event.deltaY > 0 ? 1.1 : 0.9, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    else this.pan(event.deltaX * this.view.width / box.width, event.deltaY * this.view.height / box.height);
  }

  grab(event) {
    const scale = this.view.width / this.svg.getBoundingClientRect().width;
    let last = event;
    this.moved = false;
    const move = (e) => {
      if (Math.abs(e.clientX - event.clientX) + Math.abs(e.clientY - event.clientY) > 4) this.moved = true;
      this.pan((last.clientX - e.clientX) * scale, (last.clientY - e.clientY) * scale);
      last = e;
    };
    const end = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", end); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }

  key(event) {
    const step = this.view.width / 10;
    const act = {
      ArrowLeft: () => this.pan(-step, 0), ArrowRight: () => this.pan(step, 0), ArrowUp: () => this.pan(0, -step), ArrowDown: () => this.pan(0, step),
      "+": () => this.zoom(0.8), "-": () => this.zoom(1.25), 0: () => this.fit(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
