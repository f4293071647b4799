// Every decision with its candidates, reasons, predictions and outcome, and every period without a decision: page by
// page, filtered by kind.

import { h, renew } from "./dom.js";
import { decision, episode, run, sizes } from "./decision_views.js";
import { get, segment } from "./service.js";

const PAGE = 40;
const KEPT = 1000; // the service keeps as many; a page that is open for days stops growing there
const EVERY_MS = 5000;
const BURST = 4; // decisions, each within BURST_MS of the one before, are one entry of the list
const BURST_MS = 60000;
const KINDS = { "only decisions": ["decision", "batching"], everything: [], "only “no change”": ["no_change"] };

/** Entries, newest first. A burst of decisions, with the entries between them, becomes one entry of kind episode. */
export function episodes(entries) {
  const found = [];
  for (let first = 0, last; first < entries.length; first = last + 1) {
    last = first;
    let count = 1;
    for (let next = first + 1; entries[first].kind === "decision" && next < entries.length; next++) {
      if (Date.parse(entries[last].at) - Date.parse(entries[next].at) > BURST_MS) break;
      if (entries[next].kind === "decision") [last, count] = [next, count + 1];
    }
    if (count < BURST) found.push(...entries.slice(first, last + 1));
    else found.push({ kind: "episode", count, first_at: entries[last].at, entries: entries.slice(first, last + 1) });
  }
  return found;
}

function keyOf(entry) {
  return entry.kind === "decision" ? `decision ${entry.id}` : `${entry.kind} ${entry.first_at}`;
}

/** Cut a page so that it does not end between entries of one instant; it may be shorter than requested. */
function full(page) {
  return page.length >= PAGE - 3;
}

export class Decisions {
  constructor(app, names) {
    Object.assign(this, { app, names, due: 0, entries: new Map(), items: new Map(), pinned: null, more: true, deep: false });
    this.list = h("ol", { class: "decisions" });
    this.kind = h("select", { id: "decision-kind", onchange: () => this.begin() }, Object.keys(KINDS).map((label) => h("option", { value: label }, label)));
    this.empty = h("p", { class: "hint" }, "No decisions yet. They appear when an SLO is set and the manager has something to decide.");
    this.older = h("button", { type: "button", class: "older", hidden: true, onclick: () => this.page() }, "Show older entries");
    this.element = h("section", { class: "panel", "aria-labelledby": "decisions-title" }, h("div", { class: "row" }, h("h2", { id: "decisions-title" }, "Decisions"), h("span", {}, h("label", { for: "decision-kind" }, "Show"), " ", this.kind)), this.empty, this.list, this.older);
  }

  /** Request the newest entries if the last decision or its outcome is new, and at intervals. */
  see(status) {
    const key = JSON.stringify([status.last_decision, this.names.notations.size]);
    const now = performance.now();
    if (key === this.key && now < this.due) return;
    this.key = key;
    this.due = now + EVERY_MS;
    this.load();
  }

  begin() {
    this.entries.clear();
    this.pinned = null;
    this.deep = false;
    return this.load();
  }

  ask(before) {
    const query = new URLSearchParams([...KINDS[this.kind.value].map((kind) => ["kind", kind]), ["limit", PAGE]]);
    if (before) query.set("before", before);
    return get(`decisions/${segment(this.app)}?${query}`);
  }

  async load() {
    const kind = this.kind.value;
    try {
      const found = await this.ask(null);
      if (kind === this.kind.value) this.renewWith(found);
    } catch {
      this.due = 0; // the state of the connection is shown; the next status tries again
    }
  }

  async page() {
    const last = this.sorted().at(-1);
    const found = last ? await this.ask(last.at).catch(() => null) : null;
    if (found === null) return;
    this.deep = true;
    this.more = full(found);
    this.add(found);
  }

  /** Add the newest entries. Entries out of view are dropped, unless the user has scrolled to them. */
  renewWith(found) {
    if (!this.deep) {
      const pinned = this.entries.get(this.pinned);
      this.entries = new Map(pinned ? [[this.pinned, pinned]] : []);
      this.more = full(found);
    }
    this.add(found);
  }

  add(found) {
    for (const entry of found) this.entries.set(keyOf(entry), entry);
    for (const old of this.sorted().slice(KEPT)) if (keyOf(old) !== this.pinned) this.entries.delete(keyOf(old));
    this.draw();
  }

  /** Open a decision, however old it is. */
  async reveal(number) {
    const id = `decision ${number}`;
    if (!this.entries.has(id)) {
      const found = await get(`decisions/${segment(this.app)}/${number}`).catch(() => null);
      if (found === null) return false;
      this.entries.set(id, found);
    }
    this.pinned = id;
    this.draw();
    const details = this.items.get(id).querySelector("details");
    for (let each = details; each; each = each.parentElement.closest("details")) {
      each.open = true;
      each.querySelector(":scope > ol")?.removeAttribute("hidden");
    }
    details.scrollIntoView({ block: "start" });
    details.querySelector("summary").focus({ preventScroll: true });
    return true;
  }

  sorted() {
    return [...this.entries.values()].sort((one, other) => Date.parse(other.at) - Date.parse(one.at) || (other.id ?? 0) - (one.id ?? 0));
  }

  draw() {
    const kept = new Map();
    this.place(this.list, episodes(this.sorted()), kept);
    for (const [key, item] of this.items) if (!kept.has(key)) item.remove();
    this.items = kept;
    this.empty.hidden = kept.size > 0;
    this.older.hidden = kept.size === 0 || !this.more;
  }

  place(list, entries, kept) {
    entries.forEach((entry, index) => {
      const key = keyOf(entry);
      const item = this.items.get(key) ?? h("li", { class: entry.kind });
      item.classList.toggle("pinned", key === this.pinned);
      renew(item, JSON.stringify([entry, this.names.notations.size]), () => this.drawn(entry, item));
      if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
      kept.set(key, item);
      if (entry.kind === "episode") this.place(item.querySelector("ol"), entry.entries, kept);
    });
  }

  drawn(entry, item) {
    if (entry.kind === "episode") return episode(entry, item.querySelector("details")?.open);
    if (entry.kind === "no_change") return run(entry);
    return entry.kind === "batching" ? sizes(entry) : decision(entry, this, item.querySelector("details")?.open);
  }
}
