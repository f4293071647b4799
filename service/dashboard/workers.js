// The workers one by one: group, CPU and memory use, and number of restarts.

import { h, renew } from "./dom.js";
import * as format from "./format.js";

const HEADS = ["Worker", "Group", "At work on", "CPU", "Memory", "Restarts", "Process"];

export class Workers {
  constructor() {
    this.place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "workers-title" });
    this.details = h("details", { id: "fold-workers", class: "panel fold", ontoggle: () => this.status && this.show(this.status) }, h("summary", {}, h("h2", { id: "workers-title" }, "Workers")), this.place);
    this.element = this.details;
  }

  show(status) {
    this.status = status;
    if (!this.details.open) return;
    const rows = status.workers.map((worker) => cells(worker, status.composition));
    renew(this.place, JSON.stringify(rows), () => (rows.length ? table(rows) : h("p", { class: "hint" }, "No workers.")));
  }
}

function cells(worker, composition) {
  const group = worker.group === null ? null : composition?.groups[worker.group];
  const place = worker.group === null ? (composition?.dyn ? "between stages" : "spare") : (group?.stages.join(" + ") ?? String(worker.group));
  const cpu = format.known(worker.cpu_cores) ? `${format.number(worker.cpu_cores, 2)} cores` : "–";
  return [worker.id, place, `${worker.outstanding}`, cpu, format.bytes(worker.memory_bytes), `${worker.restarts}`, `${worker.pid} on ${worker.node}`];
}

function table(rows) {
  return h("table", {}, h("thead", {}, h("tr", {}, HEADS.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) => h(index ? "td" : "th", index ? {} : { scope: "row" }, cell))))));
}
