// Every decision with its candidates, reasons, predictions and outcome, and every stretch without one.

import { h, renew, s } from "./dom.js";
import * as format from "./format.js";
import { get, segment } from "./service.js";

const LIMIT = 60;
const EVERY_MS = 5000;

export class Decisions {
  constructor(app) {
    this.app = app;
    this.entries = new Map();
    this.list = h("ol", { class: "decisions" });
    this.only = h("input", { type: "checkbox", id: "only-decisions", onchange: () => this.element.classList.toggle("only", this.only.checked) });
    this.empty = h("p", { class: "hint" }, "No decisions yet. They appear as soon as an SLO is set and there is something to decide.");
    this.element = h("section", { class: "panel", "aria-labelledby": "decisions-title" }, h("div", { class: "row" }, h("h2", { id: "decisions-title" }, "Decisions"), h("label", {}, this.only, " without “no change”")), this.empty, this.list);
    this.due = 0;
  }

  /** Asks for the list when the last decision is another one, or its outcome came, and now and then. */
  see(status) {
    const key = JSON.stringify(status.last_decision);
    const now = performance.now();
    if (key === this.key && now < this.due) return;
    this.key = key;
    this.due = now + EVERY_MS;
    this.load();
  }

  async load() {
    try {
      this.show(await get(`decisions/${segment(this.app)}?limit=${LIMIT}`));
    } catch {
      this.due = 0; // the connection tells; the next status asks again
    }
  }

  show(entries) {
    const kept = new Map();
    entries.forEach((entry, index) => {
      const key = entry.kind === "decision" ? `decision ${entry.id}` : `${entry.kind} ${entry.first_at}`;
      const item = this.entries.get(key) ?? h("li", { class: entry.kind });
      renew(item, JSON.stringify(entry), () => drawn(entry, item));
      if (this.list.children[index] !== item) this.list.insertBefore(item, this.list.children[index] ?? null);
      kept.set(key, item);
    });
    for (const [key, item] of this.entries) if (!kept.has(key)) item.remove();
    this.entries = kept;
    this.empty.hidden = entries.length > 0;
  }
}

function drawn(entry, item) {
  if (entry.kind === "no_change") return run(entry);
  return entry.kind === "batching" ? sizes(entry) : decision(entry, item.querySelector("details")?.open);
}

function sizes(entry) {
  const times = entry.count > 1 ? ` (${format.whole(entry.count)} changes, ${format.whole(entry.least)} to ${format.whole(entry.most)})` : "";
  const moved = `${format.whole(entry.from)} → ${format.whole(entry.to)} items together${times}`;
  return [h("time", { datetime: entry.at }, format.clock(entry.at)), h("span", { class: "reason" }, `${moved}, by ${entry.controller}: ${entry.reason}`)];
}

function run(entry) {
  const times = entry.count > 1 ? `, ${format.whole(entry.count)} times since ${format.clock(entry.first_at)}` : "";
  return [h("time", { datetime: entry.at }, format.clock(entry.at)), h("span", { class: "reason" }, `No change: ${entry.reason}${times}`)];
}

function decision(entry, open) {
  const moved = entry.from === entry.to ? `stays with ${entry.to}` : `${entry.from} → ${entry.to}`;
  const labels = [h("span", { class: "chip" }, entry.trigger.replace("_", " ")), entry.transition ? h("span", { class: "chip" }, entry.transition) : null, entry.infeasible ? h("span", { class: "chip", "data-slo": "infeasible" }, "out of reach") : null, entry.acted === false ? h("span", { class: "chip" }, "advice only") : null];
  const summary = h("summary", {}, h("time", { datetime: entry.at }, format.clock(entry.at)), h("strong", {}, moved), labels, h("span", { class: "reason" }, entry.reason));
  return h("details", { open: Boolean(open) }, summary, h("div", { class: "inside" }, facts(entry), drain(entry), candidates(entry)));
}

function facts(entry) {
  const rows = [["Took", `${format.number(entry.duration_s)} s`], ["Trials", format.whole(entry.trials)], ["Gap in the output", format.time(entry.gap_ms)], ["Outcome", entry.outcome ?? "not measured yet"]];
  return h("dl", { class: "facts" }, rows.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
}

function drain(entry) {
  const [estimate, actual] = [entry.drain_estimate_ms, entry.drain_actual_ms];
  if (estimate === null && actual === null) return null;
  const top = Math.max(estimate ?? 0, actual ?? 0, 1e-9);
  const bar = (label, value, kind) => h("div", { class: "bar" }, h("span", {}, label), s("svg", { viewBox: "0 0 200 10", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: kind, width: (200 * (value ?? 0)) / top, height: 10, rx: 3 })), h("b", {}, format.time(value)));
  return h("div", { class: "drain" }, h("h3", {}, "Drain of the old composition"), bar("expected within", estimate, "estimate"), bar("took", actual, "actual"));
}

function candidates(entry) {
  if (entry.candidates.length === 0) return h("p", { class: "hint" }, "No candidates: nothing was compared.");
  const heads = ["Composition", "Workers", "Verdict", "Throughput /s, predicted", "measured", "Latency, predicted", "measured", "Reason"];
  const rows = entry.candidates.map((each) => h("tr", { "data-status": each.status }, h("th", { scope: "row" }, each.name), number(each.workers), h("td", {}, h("span", { class: "chip", "data-status": each.status }, each.status)), number(format.rate(each.predicted_throughput_per_s)), number(format.rate(each.measured_throughput_per_s)), number(format.time(each.predicted_latency_ms)), number(format.time(each.measured_latency_ms)), h("td", { class: "why" }, each.reason)));
  return scrollable("Candidates", h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)));
}

function number(value) {
  return h("td", { class: "number" }, value);
}

/** A wide table that scrolls by itself, also by keyboard. */
export function scrollable(label, table) {
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
}
