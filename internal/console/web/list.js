// A list of rows of one height, of which only those in sight are in the page, so that thousands stay smooth.

// element makes an element; strings are text.
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const beyond = 8;

export class List {
  constructor(kind, label, names, narrow) {
    this.rows = [];
    this.active = null;
    this.chosen = () => {};
    this.folding = () => {};
    this.head = element("div", { class: "head", role: "row" }, ...names.map((n, i) => element("span", { role: "columnheader", class: narrow[i] ? "wide" : "" }, n)));
    this.body = element("div", { role: "rowgroup" });
    this.node = element("div", { class: "list " + kind, role: "treegrid", "aria-label": label, tabindex: "0" },
      element("div", { role: "rowgroup" }, this.head), this.body);
    this.node.addEventListener("scroll", () => this.draw());
    this.node.addEventListener("keydown", (e) => this.key(e));
    this.body.addEventListener("click", (e) => this.click(e));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  // show shows rows, which keyOf tells apart, cellsOf turns into cells, and more gives further attributes.
  show(rows, keyOf, cellsOf, more = () => ({})) {
    Object.assign(this, { rows, keyOf, cellsOf, more });
    this.node.setAttribute("aria-rowcount", String(rows.length));
    this.fresh = true;
    this.draw();
  }

  top() { this.node.scrollTop = 0; }

  height() { return this.head.offsetHeight || 36; }

  draw() {
    if (!this.keyOf) return;
    const h = this.height();
    const first = Math.max(0, Math.floor(this.node.scrollTop / h) - beyond);
    const last = Math.min(this.rows.length, Math.ceil((this.node.scrollTop + this.node.clientHeight) / h) + beyond);
    if (!this.fresh && this.first === first && this.last === last) return;
    Object.assign(this, { first, last, fresh: false });
    this.body.style.height = this.rows.length * h + "px";
    const there = new Map([...this.body.children].map((n) => [n.dataset.key, n]));
    const wanted = [];
    for (let i = first; i < last; i++) wanted.push(this.row(i, h, there));
    // Nodes that stay keep their place, so that no focus or selection is lost.
    for (const node of [...this.body.children]) if (!wanted.includes(node)) node.remove();
    for (const node of wanted) if (!node.isConnected) this.body.append(node);
    this.point();
  }

  row(i, h, there) {
    const row = this.rows[i];
    const key = this.keyOf(row);
    const node = there.get(key) ?? element("div", { class: "row", role: "row", id: "row-" + Math.random().toString(36).slice(2) });
    node.dataset.key = key;
    const text = JSON.stringify([row, this.more(row)]);
    if (node.shown !== text) {
      node.shown = text;
      node.replaceChildren(...this.cellsOf(row));
      for (const [name, value] of Object.entries(this.more(row))) {
        if (value === "") node.removeAttribute(name);
        else node.setAttribute(name, value);
      }
    }
    node.setAttribute("aria-rowindex", String(i + 1));
    node.style.top = this.height() + i * h + "px";
    return node;
  }

  point() {
    let id = "";
    for (const node of this.body.children) {
      const is = node.dataset.key === this.active;
      node.setAttribute("aria-selected", String(is));
      if (is) id = node.id;
    }
    if (id) this.node.setAttribute("aria-activedescendant", id);
    else this.node.removeAttribute("aria-activedescendant");
  }

  click(event) {
    const node = event.target.closest(".row");
    if (node) this.choose(this.rows.findIndex((r) => this.keyOf(r) === node.dataset.key), true);
  }

  choose(i, open) {
    if (i < 0 || i >= this.rows.length) return;
    this.active = this.keyOf(this.rows[i]);
    const h = this.height();
    if (i * h < this.node.scrollTop) this.node.scrollTop = i * h;
    else if ((i + 2) * h > this.node.scrollTop + this.node.clientHeight) this.node.scrollTop = (i + 2) * h - this.node.clientHeight;
    this.draw();
    this.point();
    if (open) this.chosen(this.rows[i]);
  }

  key(event) {
    const at = this.rows.findIndex((r) => this.keyOf(r) === this.active);
    const page = Math.max(1, Math.floor(this.node.clientHeight / this.height()) - 2);
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, Home: 0, End: this.rows.length - 1, PageDown: Math.min(at + page, this.rows.length - 1), PageUp: Math.max(at - page, 0) }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.choose(to, false);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      this.choose(at, true);
    } else if ((event.key === "ArrowRight" || event.key === "ArrowLeft") && at >= 0) {
      event.preventDefault();
      this.folding(this.rows[at], event.key === "ArrowRight");
    }
  }
}
