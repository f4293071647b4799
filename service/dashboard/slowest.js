// The slowest items of the last minutes: time held back, waiting time, and service time by stage.

import { h } from "./dom.js";
import * as format from "./format.js";
import { get, segment } from "./service.js";

const HEADS = ["Item", "Left at", "Latency", "Held back", "Waited", "Worked on"];

export class Slowest {
  constructor(app) {
    this.app = app;
    this.place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Slowest items" });
    this.again = h("button", { type: "button", onclick: () => this.read() }, "Refresh");
    this.element = h("details", { id: "fold-slowest", class: "panel fold", ontoggle: () => this.element.open && this.read() }, h("summary", {}, h("h2", {}, "Slowest items of the last 5 minutes")), h("p", { class: "hint" }, "From telemetry, some ten seconds after delivery. ", this.again), this.place);
  }

  async read() {
    try {
      const found = await get(`traces/${segment(this.app)}?slowest=15&last_s=300`);
      this.place.replaceChildren(found.length ? table(found) : h("p", { class: "hint" }, "No items: none was delivered, or no telemetry is written."));
    } catch (error) {
      this.place.replaceChildren(h("p", { class: "hint" }, error.message));
    }
  }
}

function table(found) {
  return h("table", {}, h("thead", {}, h("tr", {}, HEADS.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, found.map(row)));
}

function row(item) {
  const stages = item.stages.map(({ stage, worked_ms: worked }) => `${stage} ${format.time(worked)}`).join(", ");
  const times = [item.latency_ms, item.held_back_ms, item.waited_ms].map((value) => h("td", { class: "number" }, format.time(value)));
  return h("tr", {}, h("th", { scope: "row" }, String(item.serial)), h("td", {}, format.clock(item.left_at)), times, h("td", {}, stages || "no stage", item.outcome === "delivered" ? null : ` (${item.outcome})`));
}
