// One custom resource: why it is as it is, how far its parts are, and its stages, objects and pods as a list or as a drawing.
import { Drawing } from "./drawing.js";
import { element, List } from "./list.js";
import { diffPanel, objectPanel, timelinePanel } from "./panels.js";
import { age, badge, button, cell, choice, nameOf, order, state, stateOf, words } from "./rows.js";
import { ask } from "./server.js";

// Stack draws the rows of the server. home is the address of the overview, redraw asks for the same rows again.
export class Stack {
  constructor(ref, main, about, home, redraw) {
    Object.assign(this, { ref, about, redraw });
    this.folded = new Set();
    this.drawn = false;
    this.parts = { header: element("div"), progress: element("div"), explanation: element("div"), actions: element("div", { class: "bar" }) };
    this.list = new List("tree", `Objects of ${ref.kind} ${ref.name}`, ["Object", "State", "Reason", "Message"], [false, false, true, true]);
    this.list.chosen = (row) => this.choose(row);
    this.list.folding = (row, open) => this.fold(row, open);
    this.drawing = new Drawing(`Drawing of ${ref.kind} ${ref.name}, its stages, objects and pods; the list has the same`);
    this.drawing.chosen = (row) => { if (!row.stage && !row.more) objectPanel(row); };
    const [healthLabel, health] = choice("health", "State", redraw);
    this.health = health;
    this.text = element("input", { type: "search", id: "filter", placeholder: "/" });
    this.text.addEventListener("input", () => { this.list.top(); redraw(); });
    this.count = element("span", { class: "count" });
    this.toggle = button("Drawing", () => this.change(), { "aria-pressed": "false" });
    const bar = element("div", { class: "bar", role: "search" }, element("label", {}, "Filter", this.text), healthLabel, this.toggle,
      button("What would change", () => diffPanel(ref)), button("Timeline", () => timelinePanel(ref)), this.count);
    main.replaceChildren(element("p", {}, element("a", { href: home }, "Custom resources"), " / " + ref.kind),
      element("h2", {}, nameOf(ref)), this.parts.header, this.parts.actions, this.parts.progress, this.parts.explanation, bar, this.list.node);
  }

  // change shows the drawing in place of the list, or the list again.
  change() {
    this.drawn = !this.drawn;
    this.toggle.setAttribute("aria-pressed", String(this.drawn));
    const [now, then] = this.drawn ? [this.list.node, this.drawing.node] : [this.drawing.node, this.list.node];
    now.replaceWith(then);
    this.redraw();
  }

  choose(row) {
    if (row.stage) this.fold(row, this.folded.has(row.key));
    else if (!row.more) objectPanel(row);
  }

  fold(row, open) {
    if (!row.folds) return;
    if (open) this.folded.delete(row.key);
    else this.folded.add(row.key);
    this.redraw();
  }

  draw(rows) {
    const top = rows.get("stack");
    if (!top) return;
    this.summary(top);
    this.bars(top.progress ?? []);
    this.explain(rows.get("explanation"));
    const all = [...rows.entries()].filter(([, r]) => r.parent !== undefined).map(([key, r]) => ({ key, ...r }));
    const shown = this.tree(all);
    if (this.drawn) this.drawing.show(top, all.filter((r) => r.stage || this.fits(r) || this.below(r, all)));
    else this.list.show(shown, (r) => r.key, (r) => this.cells(r), (r) => ({ "aria-level": r.level, "aria-expanded": r.folds ? String(!this.folded.has(r.key)) : "" }));
  }

  fits(row) {
    const text = [row.kind, row.namespace, row.name, row.reason, row.message].join(" ").toLowerCase();
    return (!this.health.value || stateOf(row).word === this.health.value) && words(this.text.value).every((w) => text.includes(w));
  }

  // below says that a row stands below one that fits.
  below(row, all) {
    const parent = all.find((r) => r.key === row.parent);
    return Boolean(parent) && !parent.stage && this.fits(parent);
  }

  // tree are the rows as they stand in the list: stages in their order, and in each the objects with their pods, the worst first.
  tree(all) {
    const inner = all.filter((r) => !r.stage && !r.more);
    this.health.offer(new Set(inner.map((r) => stateOf(r).word)));
    const children = new Map();
    for (const r of all) children.set(r.parent, [...(children.get(r.parent) ?? []), r]);
    const worst = (a, b) => order[stateOf(a).kind] - order[stateOf(b).kind] || a.order - b.order;
    const shown = [];
    let objects = 0;
    let fitting = 0;
    for (const s of all.filter((r) => r.stage).sort((a, b) => a.order - b.order)) {
      const below = [];
      let settled = 0;
      let count = 0;
      // What others have is listed, and not counted among the objects of the custom resource.
      const own = s.key !== "stage/wired";
      for (const o of (children.get(s.key) ?? []).sort(worst)) {
        if (own) objects++;
        const pods = (children.get(o.key) ?? []).sort((a, b) => a.order - b.order);
        const fits = this.fits(o);
        const some = fits ? pods : pods.filter((p) => !p.more && this.fits(p));
        if (!fits && some.length === 0) continue;
        if (own) fitting++;
        count++;
        if (stateOf(o).kind === "good") settled++;
        below.push({ ...o, level: 2, folds: some.length > 0 });
        if (!this.folded.has(o.key)) below.push(...some.map((p) => ({ ...p, level: 3 })));
      }
      if (count === 0) continue;
      const waits = (s.waits ?? []).map((key) => all.find((r) => r.key === key)).filter((w) => w && !this.settled(w, children));
      shown.push({ ...s, level: 1, folds: true, settled, count, message: waits.length ? "waits for " + waits.map((w) => w.name).join(", ") : "" });
      if (!this.folded.has(s.key)) shown.push(...below);
    }
    this.count.textContent = `${fitting} of ${objects} objects`;
    return shown;
  }

  settled(stage, children) {
    return (children.get(stage.key) ?? []).every((o) => ["good", "none"].includes(stateOf(o).kind));
  }

  cells(row) {
    const mark = row.folds ? (this.folded.has(row.key) ? "▸ " : "▾ ") : "";
    if (row.stage) {
      return [element("span", { role: "gridcell", class: "stage" }, mark + row.name), cell(`${row.settled} of ${row.count} ready`, false), cell(""), cell(row.message)];
    }
    if (row.more) return [element("span", { role: "gridcell", class: "pod" }, row.more), cell("", false), cell(""), cell("")];
    const space = row.namespace && row.namespace !== this.ref.namespace ? row.namespace + "/" : "";
    const name = element("span", { role: "gridcell", class: row.level === 3 ? "pod" : "child", title: row.name }, mark + space + row.kind + "/" + row.name);
    return [name, state(row), cell(row.reason), cell(this.messageOf(row))];
  }

  messageOf(row) {
    const parts = [];
    if (row.containers) parts.push(`${row.containers} containers ready`);
    if (row.restarts) parts.push(`${row.restarts} restarts`);
    for (const ref of row.wiredTo ?? []) parts.push(`with an entry of ${ref.kind} ${ref.name}`);
    if (row.owner) parts.push(`belongs to ${row.owner.kind} ${row.owner.name}`);
    return [row.message, ...parts].filter(Boolean).join(" · ");
  }

  summary(top) {
    const items = [["Ready", top.ready + (top.observed ? "" : " (of an older generation)")], ["Reason", top.reason], ["Message", top.message], ["Age", age(top.created)]];
    if (top.url) items.push(["URL", top.url]);
    const out = [element("p", {}, badge(top)), element("dl", {}, ...items.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))];
    for (const warning of top.warnings ?? []) out.push(element("p", { class: "note" }, warning));
    this.parts.header.replaceChildren(...out);
    const actions = this.about.actions ? (top.suspended ? "resume" : "suspend") : "";
    if (this.actions === actions) return;
    this.actions = actions;
    const names = { resume: "Resume", suspend: "Suspend", reconcile: "Reconcile now" };
    this.parts.actions.replaceChildren(...(actions ? [actions, "reconcile"] : []).map((verb) => button(names[verb], () => this.act(verb, names[verb]))));
  }

  async act(verb, label) {
    if (!confirm(`${label} ${this.ref.kind} ${this.ref.name}?`)) return;
    try {
      await ask("/api/action", { ...this.ref, verb });
      document.getElementById("news").textContent = label + ": done";
    } catch (e) {
      alert(e.message);
    }
  }

  // bars show how far each application or component is. They are made anew only where there are others.
  bars(progress) {
    const text = JSON.stringify(progress);
    if (this.progress === text) return;
    this.progress = text;
    this.parts.progress.replaceChildren(element("ul", { class: "progress", tabindex: "0", "aria-label": "Progress of the parts" }, ...progress.map((p) => {
      const word = `${p.phase}, ${p.ready ?? 0} of ${p.objects ?? 0} objects`;
      return element("li", { title: p.message }, element("span", { class: "state " + stateOf({ health: p.phase }).kind }, p.name),
        element("progress", { max: String(Math.max(1, p.objects ?? 0)), value: String(p.ready ?? 0), "aria-label": `${p.name}: ${word}` }), element("span", {}, word));
    })));
    this.parts.progress.hidden = progress.length === 0;
  }

  explain(e) {
    const text = JSON.stringify(e);
    if (!e || this.explained === text) return;
    this.explained = text;
    this.parts.explanation.replaceChildren(element("p", { class: "explain" }, [e.cause, ...e.clues].join(" ")),
      ...(e.remedy ? [element("p", { class: "remedy" }, e.remedy)] : []), ...e.notes.map((n) => element("p", { class: "note" }, n)));
  }
}
