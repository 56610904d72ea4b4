// What opens beside the list: an object, what MLKeeper would change, and what happened.
import { element } from "./list.js";
import { address, age, badge, button, query, refOf, table } from "./rows.js";
import { ask, Stream } from "./server.js";

const panel = document.getElementById("panel");
let side = null;

// sideStream is the stream of the panel, which is closed while nobody sees the page.
export function sideStream() { return side; }

export function closePanel() {
  side?.close();
  side = null;
  panel.hidden = true;
  panel.replaceChildren();
}

function openPanel(title, ...children) {
  closePanel();
  panel.hidden = false;
  const close = button("Close", () => { closePanel(); document.querySelector(".list, .drawing svg")?.focus(); });
  panel.append(element("div", { class: "bar" }, element("h2", {}, title), close), ...children);
  close.focus();
}

// objectPanel shows an object.
export async function objectPanel(row) {
  const links = [];
  for (const ref of row.wiredTo ?? []) links.push(element("p", {}, "It has an entry of ", link(ref), "."));
  if (row.owner) links.push(element("p", {}, "It belongs to ", link(row.owner), "."));
  openPanel(row.kind + "/" + row.name, element("p", {}, badge(row)), element("p", {}, row.message), ...links);
  if (["Missing", "NotCreated", "Skipped"].includes(row.health)) return;
  const place = element("div");
  panel.append(place);
  try {
    const o = await ask("/api/object" + query(refOf(row)));
    place.replaceChildren(...table("Conditions", ["Type", "Status", "Reason", "Message"], o.conditions), ...table("Events", ["Last seen", "Type", "Reason", "Message"],
      o.events.map((e) => [age(e.lastSeen), e.type, e.reason, e.message])), ...table("Written by", ["Field manager", "Operation", "Last"], o.managers),
    element("h3", {}, "YAML"), element("pre", { tabindex: "0" }, o.yaml));
  } catch (e) {
    place.replaceChildren(element("p", { class: "note" }, e.message));
  }
}

function link(ref) {
  return element("a", { href: address(ref) }, `${ref.kind} ${ref.namespace ? ref.namespace + "/" : ""}${ref.name}`);
}

// diffPanel shows what MLKeeper would change.
export function diffPanel(ref) {
  const place = element("div", { "aria-live": "polite" });
  const compare = async (dryRun) => {
    place.replaceChildren(element("p", {}, dryRun ? "The API server tries each change…" : "Comparing…"));
    try {
      place.replaceChildren(...differences(await ask("/api/diff", { ...ref, dryRun })));
    } catch (e) {
      place.replaceChildren(element("p", { class: "note" }, e.message));
    }
  };
  openPanel("What MLKeeper would change",
    element("p", {}, "With the images of this command's flags. Defaults of the API server may be missing. A dry run has them: it sends each change to the API server, which "
      + "tries it with its webhooks, writes it to the audit log, and stores nothing. You need the right to update the objects."),
    element("div", { class: "bar" }, button("Compare again", () => compare(false)), button("Try with dry runs", () => compare(true))), place);
  compare(false);
}

function differences(report) {
  const out = [...report.messages, ...report.warnings].map((m) => element("p", { class: "note" }, m));
  const counts = {};
  for (const o of report.objects) counts[o.action] = (counts[o.action] ?? 0) + 1;
  out.unshift(element("p", { class: "remedy" }, Object.entries(counts).map(([action, n]) => `${n} ${action}`).join(", ") || "It has no objects.",
    report.dryRun ? " (tried by the API server)" : " (compared here)"));
  for (const o of report.objects) {
    if (o.action === "unchanged" && !o.note) continue;
    out.push(element("h3", {}, `${o.action} ${o.kind} ${o.namespace ? o.namespace + "/" : ""}${o.name}`), element("p", {}, o.note || o.reason));
    if (o.diff) out.push(element("pre", { tabindex: "0" }, ...hunks(o.diff)));
  }
  return out;
}

function hunks(text) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  return text.trimEnd().split("\n").map((line) => element("span", { class: "line " + (kinds[line[0]] ?? "") }, line));
}

// timelinePanel shows what happened, the latest first, and what happens from now on.
export function timelinePanel(ref) {
  const place = element("div");
  openPanel("Timeline", element("p", {}, "Events of the custom resource, its objects and their pods, which the API server keeps for an hour by default, changes of "
    + "conditions, and when objects were created. Changes of Ready are remembered while somebody looks."), place);
  const rows = new Map();
  const draw = () => {
    const all = [...rows.values()].filter((r) => r.at).sort((a, b) => b.at.localeCompare(a.at) || a.object.localeCompare(b.object));
    const notes = [...rows.values()].filter((r) => r.note).map((r) => element("p", { class: "note" }, r.note));
    place.replaceChildren(...notes, element("ol", { class: "timeline" }, ...all.map((r) => element("li", { class: r.bad ? "bad" : "" },
      element("time", { datetime: r.at, title: r.at }, age(r.at)), " ", element("strong", {}, (r.bad ? "✗ " : "") + r.what + (r.reason ? " " + r.reason : "")), " ", r.object,
      r.message ? ": " + r.message : ""))));
  };
  side = new Stream("/api/timeline" + query(ref), {
    reset: () => rows.clear(),
    change: (set, removed) => {
      for (const [key, row] of Object.entries(set)) rows.set(key, row);
      for (const key of removed) rows.delete(key);
      draw();
    },
    state: () => {},
  });
}
