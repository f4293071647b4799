// Views of the entries in the list of decisions.

import { h, s } from "./dom.js";
import * as format from "./format.js";
import { segment } from "./service.js";

export function sizes(entry) {
  const times = entry.count > 1 ? ` (${format.whole(entry.count)} changes, ${format.whole(entry.least)} to ${format.whole(entry.most)})` : "";
  const moved = `${format.whole(entry.from)} → ${format.whole(entry.to)} items in a bundle${times}`;
  return [h("time", { datetime: entry.at }, format.clock(entry.at)), h("span", { class: "reason" }, `${moved}, by ${entry.controller}: ${entry.reason}`)];
}

export function run(entry) {
  const times = entry.count > 1 ? `, ${format.whole(entry.count)} times since ${format.clock(entry.first_at)}` : "";
  return [h("time", { datetime: entry.at }, format.clock(entry.at)), h("span", { class: "reason" }, `No change: ${entry.reason}${times}`)];
}

/** A burst of decisions, which the user can unfold; the caller fills its list. */
export function episode(entry, open) {
  const decided = entry.entries.filter((each) => each.kind === "decision");
  const names = [...new Set(decided.flatMap((each) => [each.to, each.from]))];
  const told = `${format.whole(entry.count)} decisions in ${format.span((Date.parse(decided[0].at) - Date.parse(entry.first_at)) / 1000)}`;
  const among = names.length > 4 ? `${names.slice(0, 4).join(", ")} and ${names.length - 4} more` : names.join(", ");
  const summary = h("summary", {}, h("time", { datetime: decided[0].at }, format.clock(decided[0].at)), h("strong", {}, told), h("span", { class: "notation" }, among), h("span", { class: "reason" }, `Last: ${moved(decided[0])}: ${decided[0].reason}`));
  const details = h("details", { open: Boolean(open) }, summary, h("ol", { class: "decisions", hidden: !open }));
  details.addEventListener("toggle", () => { details.querySelector("ol").hidden = !details.open; });
  return details;
}

/** A decision. `list`: the list that contains it. */
export function decision(entry, list, open) {
  const notation = list.names.notations.get(entry.to);
  const labels = [h("span", { class: "chip" }, entry.trigger.replace("_", " ")), entry.transition ? h("span", { class: "chip" }, entry.transition) : null, entry.infeasible ? h("span", { class: "chip", "data-slo": "infeasible" }, "out of reach") : null, entry.acted === false ? h("span", { class: "chip" }, "advice only") : null];
  const summary = h("summary", {}, h("time", { datetime: entry.at }, format.clock(entry.at)), h("strong", {}, moved(entry)), notation ? h("span", { class: "notation" }, notation) : null, labels, h("span", { class: "reason" }, entry.reason));
  return h("details", { open: Boolean(open) }, summary, h("div", { class: "inside" }, facts(entry, list.app), drain(entry), candidates(entry, list.names)));
}

function moved(entry) {
  return entry.from === entry.to ? `stays with ${entry.to}` : `${entry.from} → ${entry.to}`;
}

function facts(entry, app) {
  const rows = [["Took", `${format.number(entry.duration_s)} s`], ["Trials", format.whole(entry.trials)], ["Gap in the output", format.time(entry.gap_ms)], ["Outcome", entry.outcome ?? "not measured yet"]];
  rows.push(["Address", h("a", { href: `#/app/${segment(app)}/decision/${entry.id}` }, `decision ${entry.id}`)]);
  return h("dl", { class: "facts" }, rows.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
}

function drain(entry) {
  const [estimate, actual] = [entry.drain_estimate_ms, entry.drain_actual_ms];
  if (estimate === null && actual === null) return null;
  const top = Math.max(estimate ?? 0, actual ?? 0, 1e-9);
  const bar = (label, value, kind) => h("div", { class: "bar" }, h("span", {}, label), s("svg", { viewBox: "0 0 200 10", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: kind, width: (200 * (value ?? 0)) / top, height: 10, rx: 3 })), h("b", {}, format.time(value)));
  return h("div", { class: "drain" }, h("h3", {}, "Drain of the old composition"), bar("expected within", estimate, "estimate"), bar("took", actual, "actual"));
}

function candidates(entry, names) {
  if (entry.candidates.length === 0) return h("p", { class: "hint" }, "No candidates: nothing was compared.");
  const heads = ["Composition", "Workers", "Verdict", "Throughput /s, predicted", "measured", "Latency, predicted", "measured", "Reason"];
  const rows = entry.candidates.map((each) => h("tr", { "data-status": each.status }, h("th", { scope: "row" }, h("span", { class: "who" }, names.told(each.name))), number(each.workers), h("td", {}, h("span", { class: "chip", "data-status": each.status }, each.status)), number(format.rate(each.predicted_throughput_per_s)), number(format.rate(each.measured_throughput_per_s)), number(format.time(each.predicted_latency_ms)), number(format.time(each.measured_latency_ms)), h("td", { class: "why" }, each.reason)));
  return scrollable("Candidates", h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)));
}

function number(value) {
  return h("td", { class: "number" }, value);
}

/** A wide table with its own scroll bar, which also works by keyboard. */
export function scrollable(label, table) {
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
}
