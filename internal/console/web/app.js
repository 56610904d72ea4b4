// The page of mlkeeper console. Text of the cluster goes into the page as text alone, never as markup.
import { element, List } from "./list.js";
import { closePanel, sideStream } from "./panels.js";
import { address, age, cell, choice, nameOf, order, overviewOf, refOf, query, state, stateOf, words } from "./rows.js";
import { login, open, session, Stream } from "./server.js";
import { Stack } from "./stack.js";

const main = document.getElementById("main");
const panel = document.getElementById("panel");
const connection = document.getElementById("connection");
const news = document.getElementById("news");
let about = {};
let stream = null;
// home is the overview that was shown last.
let home = overviewOf("");
let redraw = () => {};

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

// reading is the field for the namespace to read. Who has rights in one namespace alone sees nothing of all of them. There is none where
// the command shows one namespace alone.
function reading(namespace) {
  if (about.cluster.namespace) return [];
  const field = element("input", { id: "read", placeholder: "all", autocomplete: "off" });
  field.value = namespace;
  field.addEventListener("change", () => { location.hash = overviewOf(field.value.trim()); });
  return [element("label", {}, "Read namespace", field)];
}

function overview(namespace) {
  document.title = "MLKeeper";
  home = overviewOf(namespace);
  const list = new List("overview", "Custom resources", ["State", "Kind", "Name", "Parts", "Reason", "Message", "Age"], [false, true, false, true, false, true, true]);
  const text = element("input", { type: "search", id: "filter", placeholder: "/" });
  const count = element("span", { class: "count" });
  const notes = element("div");
  const change = () => { list.top(); redraw(); };
  text.addEventListener("input", change);
  const [kindLabel, kind] = choice("kind", "Kind", change);
  const [spaceLabel, space] = choice("namespace", "Namespace", change);
  const [healthLabel, health] = choice("health", "State", change);
  main.replaceChildren(element("h2", {}, "Custom resources"),
    element("div", { class: "bar", role: "search" }, ...reading(namespace), element("label", {}, "Filter", text), kindLabel, spaceLabel, healthLabel, count), notes, list.node);
  list.chosen = (row) => { location.hash = address(refOf(row)); };
  let begun = false;
  const before = new Map();
  watch("/api/overview" + (namespace ? query({ namespace }) : ""), (rows) => {
    const all = [...rows.values()].filter((r) => r.kind);
    notes.replaceChildren(...[...rows.values()].filter((r) => r.note).map((r) => element("p", { class: "note" }, r.note)));
    kind.offer(new Set(all.map((r) => r.kind)));
    space.offer(new Set(all.map((r) => r.namespace)));
    health.offer(new Set(all.map((r) => stateOf(r).word)));
    const wanted = words(text.value);
    const shown = all.filter((r) => (!kind.value || r.kind === kind.value) && (!space.value || r.namespace === space.value)
      && (!health.value || stateOf(r).word === health.value)
      && wanted.every((w) => [r.kind, r.namespace, r.name, r.reason, r.message].join(" ").toLowerCase().includes(w)));
    const rank = (r) => order[stateOf(r).kind];
    shown.sort((a, b) => rank(a) - rank(b) || a.kind.localeCompare(b.kind) || a.namespace.localeCompare(b.namespace) || a.name.localeCompare(b.name));
    count.textContent = shown.length === all.length ? `${all.length} custom resources` : `${shown.length} of ${all.length} custom resources`;
    announce(before, all);
    if (!begun && all.length > 0) performance.mark("first-rows");
    begun ||= all.length > 0;
    // The age belongs to what a row shows: what stays as it is, is not drawn again.
    list.show(shown.map((r) => ({ ...r, age: age(r.created) })), (r) => [r.group, r.kind, r.namespace, r.name].join("/"), (r) => [state(r), cell(r.kind),
      cell(nameOf(r), false), cell(r.parts ?? ""), cell(r.reason, false), cell(r.message), cell(r.age)]);
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
  const view = new Stack(ref, main, about, home, () => redraw());
  watch("/api/stack" + query(ref), (rows) => view.draw(rows));
}

// names are the parts of an address; none of one that nobody wrote as such.
function names(text) {
  try {
    return text.split("/").map(decodeURIComponent);
  } catch {
    return [];
  }
}

function route() {
  closePanel();
  const parts = names(location.hash.replace(/^#\//, ""));
  if (parts[0] === "stack" && parts.length === 5) stack({ group: parts[1], kind: parts[2], namespace: parts[3], name: parts[4] });
  else overview(parts[0] === "namespace" && parts.length === 2 ? parts[1] : "");
  main.focus();
}

function keys(event) {
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName);
  if (event.key === "Escape") {
    if (!panel.hidden) {
      closePanel();
      document.querySelector(".list, .drawing svg")?.focus();
    }
    else if (typing) document.activeElement.blur();
    else location.hash = home;
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

// visible closes the streams while nobody sees the page.
function visible() {
  for (const one of [stream, sideStream()]) {
    if (document.hidden) one?.close();
    else open(one);
  }
}

async function start() {
  themes();
  // The address says what is shown, so that the link to the content must not change it.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  try {
    await session();
    about = await login(main);
  } catch (e) {
    main.replaceChildren(element("p", { class: "note", role: "alert" }, e.message));
    return;
  }
  const { context, server, user, scope } = about.cluster;
  document.getElementById("where").textContent = [context, server, user, scope].filter(Boolean).join(" · ");
  addEventListener("hashchange", route);
  addEventListener("keydown", keys);
  document.addEventListener("visibilitychange", visible);
  setInterval(() => redraw(), 30000);
  route();
}

start();
