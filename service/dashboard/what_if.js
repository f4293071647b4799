// Predictions of every composition for other cores, replicas or input rates, and the manager's choice.

import { h } from "./dom.js";
import * as format from "./format.js";
import { get, segment } from "./service.js";
import { scrollable } from "./decision_views.js";
import { Field, Form } from "./forms.js";

const COLUMNS = [
  ["name", "Composition", (row) => row.name],
  ["workers", "Workers", (row) => row.workers],
  ["predicted_throughput_per_s", "Throughput up to", (row) => row.predicted_throughput_per_s],
  ["predicted_latency_ms", "Mean latency", (row) => row.predicted_latency_ms ?? Infinity],
  ["predicted_p95_ms", "p95", (row) => row.predicted_p95_ms ?? Infinity],
  ["limited_by", "Limited by", (row) => (row.limited_by ?? []).join()],
  ["meets", "SLO", (row) => ({ true: 0, false: 2 })[row.meets] ?? 1],
];

export class WhatIf {
  constructor(app) {
    this.app = app;
    this.sorted = null;
    this.answer = null;
    this.cost = null;
    this.cores = new Field({ name: "cores", label: "Cores", inputmode: "numeric", placeholder: "as now" });
    this.replicas = new Field({ name: "replicas", label: "Replicas of parallel groups", inputmode: "numeric", placeholder: "as now" });
    this.rate = new Field({ name: "rate_per_s", label: "Input rate", unit: "items/s", inputmode: "decimal", placeholder: "as now" });
    this.form = new Form({ fields: [this.cores, this.replicas, this.rate], submit: "Predict", send: () => this.ask() });
    this.place = h("div");
    this.element = h("section", { class: "panel what-if", "aria-labelledby": "what-if-title" }, h("h2", { id: "what-if-title" }, "What if"), h("p", { class: "hint" }, "Predictions for every composition, from the present profile."), this.form.element, this.place);
  }

  know({ cost }) {
    this.cost = cost ?? null;
  }

  async ask() {
    const query = new URLSearchParams();
    for (const field of [this.cores, this.replicas, this.rate]) if (field.value !== "") query.set(field.name, field.value);
    this.place.replaceChildren();
    this.answer = await get(`what-if/${segment(this.app)}?${query}`);
    this.sorted = null;
    this.show();
    return this.verdict();
  }

  /** The manager's choice, in the colour of success only if it meets the objective. */
  verdict() {
    const { choice, reason, compositions } = this.answer;
    if (choice === null) return { text: `No choice: ${reason}.`, kind: "" };
    const row = compositions.find((each) => each.name === choice);
    const kind = row?.meets ? "good" : row?.meets === false ? "bad" : "";
    return { text: `${kind === "bad" ? "Nothing would meet the SLO here. " : ""}The manager would choose ${choice}: ${reason}.`, kind };
  }

  sort(key) {
    this.sorted = this.sorted?.key === key ? { key, down: !this.sorted.down } : { key, down: false };
    this.show();
    this.place.querySelector(`button[data-key="${key}"]`).focus();
  }

  show() {
    const rows = [...this.answer.compositions];
    if (this.sorted) {
      const value = COLUMNS.find(([key]) => key === this.sorted.key)[2];
      const order = (one, other) => (value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0);
      rows.sort((one, other) => (this.sorted.down ? -1 : 1) * order(one, other));
    }
    const table = h("table", {}, h("thead", {}, h("tr", {}, COLUMNS.map((column) => this.head(column)))), h("tbody", {}, rows.map((row) => this.row(row))));
    const left = this.answer.left_out ? h("p", { class: "hint" }, `${this.answer.left_out} further compositions are not listed.`) : null;
    this.place.replaceChildren(scrollable("Predictions", table), ...[left, others(this.cost), times(this.answer, this.cost)].filter(Boolean));
  }

  head([key, label]) {
    const sorted = this.sorted?.key === key ? (this.sorted.down ? "descending" : "ascending") : null;
    return h("th", { scope: "col", "aria-sort": sorted }, h("button", { type: "button", class: "sort", "data-key": key, onclick: () => this.sort(key) }, label, sorted && h("span", { "aria-hidden": "true" }, sorted === "ascending" ? " ▲" : " ▼")));
  }

  row(row) {
    const chosen = row.name === this.answer.choice;
    const latency = (value) => (row.overloaded ? "grows" : format.time(value));
    const meets = row.meets === null || row.meets === undefined ? "–" : h("span", { class: "chip", "data-slo": row.meets ? "met" : "violated" }, row.meets ? "meets" : "misses");
    const labels = [chosen ? h("span", { class: "chip", "data-status": "chosen" }, "manager's choice") : null, row.active ? h("span", { class: "chip" }, "active") : null];
    return h("tr", { "data-status": chosen ? "chosen" : null }, h("th", { scope: "row" }, h("span", { class: "who" }, row.name, labels), h("span", { class: "notation" }, row.notation)), number(row.workers), number(`${format.rate(row.predicted_throughput_per_s)}/s`, rates(row)), number(latency(row.predicted_latency_ms), latencies(row)), number(latency(row.predicted_p95_ms)), h("td", {}, (row.limited_by ?? []).join(", ") || "–"), h("td", {}, meets));
  }
}

function number(value, range = null) {
  return h("td", { class: "number" }, value, range && h("span", { class: "range" }, range));
}

function rates({ throughput_per_s_range: range }) {
  return range ? `${format.rate(range[0])} – ${format.rate(range[1])}` : null;
}

function latencies({ latency_ms_range: range }) {
  return range ? `${format.time(range[0])} – ${range[1] === null ? "grows" : format.time(range[1])}` : null;
}

/** A warning if other processes use the cores: stages then wait for a core, and their times include that. */
function others(cost) {
  if (!cost || !format.crowded(cost)) return null;
  return h("p", { class: "notice warn" }, `Something else keeps ${format.number(cost.others_cores)} of the ${cost.cores} cores busy. A stage's wait for them counts as its own, so predictions for other numbers of cores assume a machine as busy as this one.`);
}

/** The basis of the predictions: the times of the stages, and their part due to contention. */
function times({ stages, crowding }, cost) {
  if (!stages?.length) return null;
  const crowded = crowding > 1.05;
  const alone = cost && format.crowded(cost) ? "The times are as measured" : "The cores are not the limit now, so the times contain no contention";
  const words = crowded ? `Now ${format.number(crowding)} busy workers share a core, which makes every stage slower. Predictions for other numbers of cores leave this effect out; their ranges reach from cores as crowded as now to free cores.` : `${alone}. The ranges show how precisely the mean times are known.`;
  const rows = stages.map((stage) => h("tr", {}, h("th", { scope: "row" }, stage.name), number(format.time(stage.service_time_ms)), number(format.time(stage.free_time_ms)), number(format.time(stage.cpu_time_ms)), number(format.time(Math.max(0, stage.free_time_ms - stage.cpu_time_ms)))));
  const heads = ["Stage", "Measured now", "Without contention", "of it CPU", "of it waiting"];
  return h("div", { class: "times" }, h("p", { class: crowded ? "notice warn" : "hint" }, words), scrollable("Times of the stages", h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows))));
}
