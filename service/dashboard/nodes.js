// The nodes of the cluster, if there are several: resources of each node, their use, and its workers by app.

import { h, renew, shown } from "./dom.js";
import * as format from "./format.js";
import { get } from "./service.js";

const EVERY_MS = 5000;
const HEADS = ["Node", "State", "Cores", "CPUs reserved", "GPUs", "Memory reserved", "Memory free", "Workers"];

export class Nodes {
  constructor() {
    this.place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "nodes-title" });
    this.element = h("section", { class: "panel", "aria-labelledby": "nodes-title", hidden: true }, h("h2", { id: "nodes-title" }, "Nodes"), this.place);
    this.due = 0;
  }

  /** Request the nodes again after some seconds; called with each status. */
  async look() {
    if (performance.now() < this.due) return;
    this.due = performance.now() + EVERY_MS;
    try {
      this.show(await get("/nodes"));
    } catch {
      // the page already shows that the service does not answer
    }
  }

  show(nodes) {
    shown(this.element, nodes.length > 1);
    const rows = nodes.map(cells);
    renew(this.place, JSON.stringify(rows), () => table(rows));
  }
}

/** A number with at most two decimals, as a quota may be half a core. */
function plain(value) {
  return String(Math.round(value * 100) / 100);
}

function cells(node) {
  const busy = (node.devices ?? []).filter((gpu) => gpu.busy !== null).map((gpu) => ` · ${Math.round(100 * gpu.busy)} %`);
  const gpus = node.gpus ? `${plain(node.gpus_used)} of ${node.gpus}${busy.join("")}` : "–";
  const workers = Object.entries(node.workers).map(([app, count]) => `${app} ${count}`);
  const since = node.state === "up" ? "" : ` since ${format.clock(Date.parse(node.since) / 1000)}`;
  const memory = `${format.bytes(node.memory_used_bytes)} of ${format.bytes(node.memory_bytes)}`;
  const free = node.machine_memory_bytes ? `${format.bytes(node.machine_memory_free_bytes)} of ${format.bytes(node.machine_memory_bytes)}` : "–";
  return [node.address, node.state + since, plain(node.cpus), plain(node.cpus_used), gpus, memory, free, workers.join(", ") || "–"];
}

function table(rows) {
  return h("table", {}, h("thead", {}, h("tr", {}, HEADS.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) => h(index ? "td" : "th", index ? {} : { scope: "row" }, cell))))));
}
