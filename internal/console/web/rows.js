// How rows of the server are worded and named. States are told by a symbol and a word, so that nothing depends on colour.
import { element } from "./list.js";

// stateOf is the class and the word of how a row is.
export function stateOf(row) {
  const health = row.health ?? (row.deleting ? "Deleting" : row.suspended && row.ready !== "True" ? "Suspended" : row.stalled ? "Stalled"
    : row.ready === "True" && row.observed ? "Ready" : row.ready === "Unknown" ? "Unknown" : "Progressing");
  const kinds = {
    Ready: "good", Current: "good", Wired: "good", Stalled: "bad", Failed: "bad", Missing: "bad", Unknown: "none", Skipped: "none", Suspended: "none",
    Pending: "none",
  };
  return { word: health, kind: kinds[health] ?? "busy" };
}

// order has the worst first.
export const order = { bad: 0, busy: 1, none: 2, good: 3 };

export const symbols = { good: "✓", busy: "…", bad: "✗", none: "–" };

// badge tells the state of a row, and state does in a cell.
export function badge(row, attributes = {}) {
  const { word, kind } = stateOf(row);
  return element("span", { class: "state " + kind, ...attributes }, word);
}

export function state(row) {
  return badge(row, { role: "gridcell" });
}

export function age(created) {
  const seconds = Math.max(0, (Date.now() - Date.parse(created)) / 1000);
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds >= 2 * length) return Math.floor(seconds / length) + unit;
  }
  return Math.floor(seconds) + "s";
}

export function cell(text, wide = true) {
  return element("span", { role: "gridcell", class: wide ? "wide" : "", title: text }, text);
}

export function nameOf(row) {
  return (row.namespace ? row.namespace + "/" : "") + row.name;
}

export function refOf(row) {
  return { group: row.group ?? "", kind: row.kind, namespace: row.namespace, name: row.name };
}

export function query(ref) {
  return "?" + new URLSearchParams(ref);
}

export function address(ref) {
  return "#/stack/" + [ref.group, ref.kind, ref.namespace, ref.name].map(encodeURIComponent).join("/");
}

// overviewOf is the address of the overview of one namespace, or of all.
export function overviewOf(namespace) {
  return namespace ? "#/namespace/" + encodeURIComponent(namespace) : "#/";
}

export function words(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

// choice is a select of the values that the rows have.
export function choice(name, label, changed) {
  const select = element("select", { id: name });
  select.addEventListener("change", changed);
  select.offer = (values) => {
    const chosen = select.value;
    const wanted = ["", ...[...values].sort()];
    if (wanted.length === select.options.length && wanted.every((v, i) => select.options[i].value === v)) return;
    select.replaceChildren(...wanted.map((v) => new Option(v || "all", v)));
    select.value = wanted.includes(chosen) ? chosen : "";
  };
  return [element("label", {}, label, select), select];
}

export function button(label, pressed, attributes = {}) {
  const b = element("button", { type: "button", ...attributes }, label);
  b.addEventListener("click", pressed);
  return b;
}

export function table(title, names, rows) {
  if (!rows?.length) return [];
  return [element("h3", {}, title), element("table", {}, element("thead", {}, element("tr", {}, ...names.map((n) => element("th", { scope: "col" }, n)))),
    element("tbody", {}, ...rows.map((r) => element("tr", {}, ...r.map((v) => element("td", {}, v))))))];
}
