// A card for each app.

import { h, renew, say, s } from "./dom.js";
import * as format from "./format.js";
import { samplesOf } from "./samples.js";
import { segment } from "./service.js";

const SPARK_S = 300;
const SPARK_EVERY_MS = 1000;

export class Overview {
  constructor() {
    this.cards = new Map();
    this.list = h("div", { class: "cards" }, loading());
    this.notice = h("div");
    this.element = h("div", { class: "overview" }, h("h1", {}, "Apps"), this.notice, this.list);
    this.sparkDue = 0;
  }

  show(statuses) {
    if (this.list.firstElementChild?.classList.contains("loading")) this.list.replaceChildren();
    if (statuses.length === 0) return renew(this.list, "empty", empty);
    for (const status of statuses) this.card(status.app).show(status);
    const now = performance.now();
    if (now < this.sparkDue) return;
    this.sparkDue = now + SPARK_EVERY_MS;
    for (const card of this.cards.values()) card.draw();
  }

  card(app) {
    if (!this.cards.has(app)) {
      this.cards.set(app, new Card(app));
      this.list.append(this.cards.get(app).element);
    }
    return this.cards.get(app);
  }

  catchUp() {
    for (const card of this.cards.values()) card.draw();
  }

  connected(state) {
    renew(this.notice, state === "lost" ? "lost" : "", () => (state === "lost" ? lostNotice() : []));
  }

  refuse(error) {
    this.list.replaceChildren(h("p", { class: "notice bad" }, error.message));
  }

  close() {}
}

export function lostNotice() {
  const since = format.clock(Date.now() / 1000);
  return h("p", { class: "notice warn" }, h("strong", {}, "The service does not answer."), ` Figures are those of ${since}. Trying again; what is missed will be filled in.`);
}

export function loading() {
  return h("div", { class: "loading", "aria-busy": "true" }, h("div"), h("div"), h("div"));
}

function empty() {
  return h("div", { class: "panel empty" }, h("h2", {}, "No apps yet"), h("p", {}, "Put a file with an App class into a folder and start the service with ", h("code", {}, "recompose serve --apps FOLDER"), "."));
}

class Card {
  constructor(app) {
    this.app = app;
    this.name = h("a", { href: `#/app/${segment(app)}` }, app);
    this.chips = h("p", { class: "chips" });
    this.composition = h("p", { class: "notation" });
    this.figures = ["Input", "Output", "Latency"].map((label) => ({ value: h("dd"), element: null, label }));
    const figures = h("dl", { class: "mini" }, this.figures.map((each) => h("div", {}, h("dt", {}, each.label), each.value)));
    this.words = h("p", { class: "hint" });
    this.spark = s("svg", { class: "spark", viewBox: "0 0 300 56", preserveAspectRatio: "none", role: "img", "aria-label": "Input rate and throughput of the last 5 minutes" });
    this.element = h("article", { class: "card" }, h("h2", {}, this.name), this.chips, this.composition, figures, this.spark, this.words);
  }

  show(status) {
    this.element.dataset.state = status.state;
    this.element.dataset.slo = status.slo_status;
    renew(this.chips, `${status.state} ${status.slo_status} ${status.mode}`, () => chips(status));
    say(this.composition, status.composition ? `${status.composition.name} · ${status.composition.notation}` : "");
    const latency = status.slo?.metric === "latency" ? status.latency_ms[status.slo.statistic] : status.latency_ms.mean;
    const bound = status.slo?.metric === "latency" ? ` / ${format.time(status.slo.bound)}` : "";
    const values = [`${format.rate(status.input_rate_per_s)}/s`, `${format.rate(status.throughput_per_s)}/s`, format.time(latency) + bound];
    this.figures.forEach((figure, index) => say(figure.value, values[index]));
    say(this.words, words(status));
  }

  draw() {
    const list = samplesOf(this.app).list;
    const end = list.length ? list[list.length - 1].t : 0;
    const seen = list.filter((sample) => sample.t > end - SPARK_S);
    const top = Math.max(1e-9, ...seen.map((sample) => Math.max(sample.input ?? 0, sample.output ?? 0))) * 1.08;
    const line = (key) => path(seen.map((sample) => [300 - (end - sample.t), sample[key] === null ? null : 54 - (52 * sample[key]) / top]));
    this.spark.replaceChildren(s("path", { class: "input", d: line("input") }), s("path", { class: "output", d: line("output") }));
  }
}

function path(points) {
  let pen = "M";
  let text = "";
  for (const [x, y] of points) {
    if (y === null) pen = "M";
    else {
      text += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
    }
  }
  return text;
}

export function chips(status) {
  const list = [h("span", { class: "chip", "data-state": status.state }, status.state)];
  if (!["stopped", "failed"].includes(status.state) || status.slo_status !== "unknown")
    list.push(h("span", { class: "chip", "data-slo": status.slo_status }, format.VERDICT[status.slo_status]));
  if (status.mode !== "auto") list.push(h("span", { class: "chip", "data-mode": status.mode }, status.mode));
  return list;
}

function words(status) {
  if (status.state === "failed") return (status.failure ?? "It has failed.").trim().split("\n").pop();
  if (status.state === "stopped") return "Stopped. Open it to start it.";
  if (status.state === "starting") return "Workers are starting.";
  return format.objective(status.slo);
}
