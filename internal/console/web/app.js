// The page of mlkeeper console. Text of the cluster goes into the page as text alone, never as markup.
import { clear, element, List } from "./list.js";
import { ask, open, session, Stream } from "./server.js";

const main = document.getElementById("main");
const panel = document.getElementById("panel");
const connection = document.getElementById("connection");
const news = document.getElementById("news");
let about = {};
let stream = null;
let redraw = () => {};

// state is the class and the word of how a row is: a symbol and a word, so that nothing depends on colour.
function stateOf(row) {
  const health = row.health ?? (row.deleting ? "Deleting" : row.suspended && row.ready !== "True" ? "Suspended" : row.stalled ? "Stalled"
    : row.ready === "True" && row.observed ? "Ready" : row.ready === "Unknown" ? "Unknown" : "Progressing");
  const kinds = { Ready: "good", Current: "good", Stalled: "bad", Failed: "bad", Missing: "bad", Unknown: "none", Skipped: "none", Suspended: "none" };
  return { word: health, kind: kinds[health] ?? "busy" };
}

const order = { bad: 0, busy: 1, none: 2, good: 3 };

function state(row) {
  const { word, kind } = stateOf(row);
  return element("span", { class: "state " + kind, role: "gridcell" }, word);
}

function age(created) {
  const seconds = Math.max(0, (Date.now() - Date.parse(created)) / 1000);
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds >= 2 * length) return Math.floor(seconds / length) + unit;
  }
  return Math.floor(seconds) + "s";
}

// watch follows a stream of rows. It is closed while nobody sees the page.
function watch(path, draw) {
  stream?.close();
  const rows = new Map();
  stream = new Stream(path, {
    reset: () => rows.clear(),
    change: (set, removed) => {
      for (const [key, row] of Object.entries(set)) rows.set(key, row);
      for (const key of removed) rows.delete(key);
      draw(rows);
    },
    state: (text) => { connection.textContent = text; },
  });
  redraw = () => draw(rows);
}

function cell(text, wide = true) {
  return element("span", { role: "gridcell", class: wide ? "wide" : "", title: text }, text);
}

function nameOf(row) {
  return (row.namespace ? row.namespace + "/" : "") + row.name;
}

function refOf(row) {
  return { group: row.group, kind: row.kind, namespace: row.namespace, name: row.name };
}

function query(ref) {
  return "?" + new URLSearchParams(ref);
}

function address(ref) {
  return "#/stack/" + [ref.group, ref.kind, ref.namespace, ref.name].map(encodeURIComponent).join("/");
}

// choice is a select of the values that the rows have.
function choice(name, label, changed) {
  const select = element("select", { id: name });
  select.addEventListener("change", changed);
  select.offer = (values) => {
    const chosen = select.value;
    const wanted = ["", ...[...values].sort()];
    if (wanted.length === select.options.length && wanted.every((v, i) => select.options[i].value === v)) return;
    clear(select);
    for (const v of wanted) select.append(new Option(v || "all", v));
    select.value = wanted.includes(chosen) ? chosen : "";
  };
  return [element("label", {}, label, select), select];
}

function overview(filter) {
  document.title = "MLKeeper";
  const list = new List("overview", "Custom resources", ["State", "Kind", "Name", "Reason", "Message", "Age"], [false, true, false, false, true, true]);
  const text = element("input", { type: "search", id: "filter", placeholder: "/" });
  text.value = filter;
  const count = element("span", { class: "count" });
  const notes = element("div");
  const change = () => { list.top(); redraw(); };
  text.addEventListener("input", change);
  const [kindLabel, kind] = choice("kind", "Kind", change);
  const [spaceLabel, space] = choice("namespace", "Namespace", change);
  const [healthLabel, health] = choice("health", "State", change);
  main.replaceChildren(element("h2", {}, "Custom resources"),
    element("div", { class: "bar", role: "search" }, element("label", {}, "Filter", text), kindLabel, spaceLabel, healthLabel, count), notes, list.node);
  list.chosen = (row) => { location.hash = address(refOf(row)); };
  const before = new Map();
  watch("/api/overview", (rows) => {
    const all = [...rows.values()].filter((r) => r.kind);
    notes.replaceChildren(...[...rows.values()].filter((r) => r.note).map((r) => element("p", { class: "note" }, r.note)));
    kind.offer(new Set(all.map((r) => r.kind)));
    space.offer(new Set(all.map((r) => r.namespace)));
    health.offer(new Set(all.map((r) => stateOf(r).word)));
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = all.filter((r) => (!kind.value || r.kind === kind.value) && (!space.value || r.namespace === space.value)
      && (!health.value || stateOf(r).word === health.value)
      && words.every((w) => [r.kind, r.namespace, r.name, r.reason, r.message].join(" ").toLowerCase().includes(w)));
    const rank = (r) => order[stateOf(r).kind];
    shown.sort((a, b) => rank(a) - rank(b) || a.kind.localeCompare(b.kind) || a.namespace.localeCompare(b.namespace) || a.name.localeCompare(b.name));
    count.textContent = shown.length === all.length ? `${all.length} custom resources` : `${shown.length} of ${all.length} custom resources`;
    announce(before, all);
    list.show(shown, (r) => [r.group, r.kind, r.namespace, r.name].join("/"), (r) => [state(r), cell(r.kind),
      cell(nameOf(r), false), cell(r.reason, false), cell(r.message), cell(age(r.created))]);
  });
}

// announce tells those who do not see the page which custom resources became Ready, or no longer are.
function announce(before, all) {
  const changed = [];
  for (const r of all) {
    const key = [r.group, r.kind, r.namespace, r.name].join("/");
    const now = stateOf(r).word;
    if (before.has(key) && before.get(key) !== now) changed.push(`${r.kind} ${r.name} is ${now}`);
    before.set(key, now);
  }
  if (changed.length > 0) news.textContent = changed.slice(0, 3).join(", ");
}

function stack(ref) {
  document.title = ref.name + " - MLKeeper";
  const header = element("div");
  const explanation = element("div");
  const folded = new Set();
  const list = new List("tree", `Objects of ${ref.kind} ${ref.name}`, ["Object", "State", "Reason", "Message"], [false, false, true, true]);
  const [healthLabel, health] = choice("health", "State", () => redraw());
  const text = element("input", { type: "search", id: "filter", placeholder: "/" });
  text.addEventListener("input", () => { list.top(); redraw(); });
  const count = element("span", { class: "count" });
  main.replaceChildren(element("p", {}, element("a", { href: "#/" }, "Custom resources"), " / " + ref.kind),
    element("h2", {}, nameOf(ref)), header, explanation,
    element("div", { class: "bar", role: "search" }, element("label", {}, "Filter", text), healthLabel, count), list.node);
  list.chosen = (row) => {
    if (!row.stage) return details(row);
    if (!folded.delete(row.key)) folded.add(row.key);
    redraw();
  };
  let explained = "";
  watch("/api/stack" + query(ref), (rows) => {
    const top = rows.get("stack");
    if (!top) return;
    header.replaceChildren(...summary(top, ref));
    const sign = [top.ready, top.reason, top.message, top.observed].join("|");
    if (sign !== explained) { explained = sign; explain(ref, explanation); }
    const objects = [...rows.entries()].filter(([, r]) => r.parent !== undefined).map(([key, r]) => ({ key, ...r }));
    const inner = objects.filter((o) => !o.stage);
    health.offer(new Set(inner.map((o) => stateOf(o).word)));
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (o) => (!health.value || stateOf(o).word === health.value)
      && words.every((w) => [o.kind, o.namespace, o.name, o.reason, o.message].join(" ").toLowerCase().includes(w));
    const shown = [];
    for (const s of objects.filter((o) => o.stage).sort((a, b) => a.order - b.order)) {
      const children = inner.filter((o) => o.parent === s.key && fits(o)).sort((a, b) => order[stateOf(a).kind] - order[stateOf(b).kind] || a.order - b.order);
      if (children.length === 0) continue;
      shown.push({ ...s, settled: children.filter((c) => stateOf(c).kind === "good").length, all: children.length });
      if (!folded.has(s.key)) shown.push(...children);
    }
    count.textContent = `${inner.filter(fits).length} of ${inner.length} objects`;
    list.show(shown, (o) => o.key, (o) => o.stage
      ? [element("span", { role: "gridcell", class: "stage" }, (folded.has(o.key) ? "▸ " : "▾ ") + o.name), cell(`${o.settled} of ${o.all} ready`, false), cell(""), cell("")]
      : [element("span", { role: "gridcell", class: "child", title: o.name }, (o.namespace && o.namespace !== ref.namespace ? o.namespace + "/" : "") + o.kind + "/" + o.name), state(o), cell(o.reason), cell(o.message)],
    (o) => ({ "aria-level": o.stage ? 1 : 2, ...(o.stage ? { "aria-expanded": String(!folded.has(o.key)) } : {}) }));
  });
}

function summary(top, ref) {
  const items = [["Ready", top.ready + (top.observed ? "" : " (of an older generation)")], ["Reason", top.reason], ["Message", top.message], ["Age", age(top.created)]];
  if (top.url) items.push(["URL", top.url]);
  const out = [element("p", {}, state(top)), element("dl", {}, ...items.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))];
  for (const warning of top.warnings ?? []) out.push(element("p", { class: "note" }, warning));
  if (about.actions) {
    const button = (verb, label) => {
      const b = element("button", { type: "button" }, label);
      b.addEventListener("click", async () => {
        if (!confirm(`${label} ${ref.kind} ${ref.name}?`)) return;
        try { await ask("/api/action", { ...ref, verb }); news.textContent = label + ": done"; } catch (e) { alert(e.message); }
      });
      return b;
    };
    out.push(element("div", { class: "bar" }, top.suspended ? button("resume", "Resume") : button("suspend", "Suspend"), button("reconcile", "Reconcile now")));
  }
  return out;
}

async function explain(ref, node) {
  try {
    const e = await ask("/api/explain" + query(ref));
    node.replaceChildren(element("p", { class: "explain" }, [e.cause, ...e.clues].join(" ")),
      ...(e.remedy ? [element("p", { class: "remedy" }, e.remedy)] : []), ...[...e.notes, ...e.warnings].map((n) => element("p", { class: "note" }, n)));
  } catch (e) {
    node.replaceChildren(element("p", { class: "note" }, e.message));
  }
}

async function details(row) {
  panel.hidden = false;
  const close = element("button", { type: "button" }, "Close");
  close.addEventListener("click", closePanel);
  const title = element("h2", {}, row.kind + "/" + row.name);
  panel.replaceChildren(element("div", { class: "bar" }, title, close), element("p", {}, state(row)), element("p", {}, row.message));
  close.focus();
  if (row.health === "Missing" || row.health === "NotCreated" || row.health === "Skipped") return;
  try {
    const o = await ask("/api/object" + query(refOf(row)));
    panel.append(...table("Conditions", ["Type", "Status", "Reason", "Message"], o.conditions), ...table("Events", ["Last seen", "Type", "Reason", "Message"],
      o.events.map((e) => [age(e.lastSeen), e.type, e.reason, e.message])), ...table("Written by", ["Field manager", "Operation", "Last"], o.managers),
    element("h3", {}, "YAML"), element("pre", { tabindex: "0" }, o.yaml));
  } catch (e) {
    panel.append(element("p", { class: "note" }, e.message));
  }
}

function table(title, names, rows) {
  if (!rows?.length) return [];
  return [element("h3", {}, title), element("table", {}, element("thead", {}, element("tr", {}, ...names.map((n) => element("th", { scope: "col" }, n)))),
    element("tbody", {}, ...rows.map((r) => element("tr", {}, ...r.map((v) => element("td", {}, v))))))];
}

function closePanel() {
  panel.hidden = true;
  panel.replaceChildren();
  document.querySelector(".list")?.focus();
}

function route() {
  panel.hidden = true;
  const parts = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  if (parts[0] === "stack" && parts.length === 5) stack({ group: parts[1], kind: parts[2], namespace: parts[3], name: parts[4] });
  else overview("");
  main.focus();
}

function keys(event) {
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName);
  if (event.key === "Escape") {
    if (!panel.hidden) closePanel();
    else if (typing) document.activeElement.blur();
    else location.hash = "#/";
  } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    document.getElementById("filter")?.focus();
  }
}

function themes() {
  const button = document.getElementById("theme");
  const names = ["auto", "light", "dark"];
  const set = (name) => {
    localStorage.setItem("theme", name);
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    button.textContent = "Theme: " + name;
  };
  button.addEventListener("click", () => set(names[(names.indexOf(localStorage.getItem("theme") ?? "auto") + 1) % names.length]));
  set(names.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");
}

async function start() {
  themes();
  try {
    await session();
    about = await ask("/api/about");
  } catch (e) {
    main.replaceChildren(element("p", { class: "note", role: "alert" }, e.message));
    return;
  }
  const { context, server, user, scope } = about.cluster;
  document.getElementById("where").textContent = [context, server, user, scope].filter(Boolean).join(" · ");
  addEventListener("hashchange", route);
  addEventListener("keydown", keys);
  document.addEventListener("visibilitychange", () => (document.hidden ? stream?.close() : open(stream)));
  setInterval(() => redraw(), 30000);
  route();
}

start();
