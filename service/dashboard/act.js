// The controls of an app: objective, mode, input, start and stop, compositions.

import { h, renew, say, shown } from "./dom.js";
import * as format from "./format.js";
import { call, segment } from "./service.js";
import { Field, Form, action } from "./forms.js";
import { Editor } from "./editor.js";

const PATTERNS = [["fixed", "fixed rate"], ["", "as fast as possible"], ["wave", "wave"], ["binary", "binary: low, then high"], ["increasing", "increasing"], ["decreasing", "decreasing"], ["spike", "spike"], ["trace", "recorded trace"]];
const STRATEGIES = [["expected-cost", "expected-cost"], ["vogel", "vogel"], ["pdp21", "pdp21"], ["static", "static"], ["spar", "spar"], ["two-sided", "two-sided"]];

function part(id, title, ...content) {
  return h("details", { id: `act-${id}`, class: "part" }, h("summary", {}, h("h3", {}, title)), content);
}

export class Act {
  constructor(app, changed) {
    this.app = app;
    this.path = segment(app);
    this.changed = changed;
    this.editor = new Editor(app, changed);
    this.parts = { run: this.startAndStop(), slo: this.objective(), mode: this.mode(), input: this.input(), compositions: part("compositions", "Compositions", this.editor.element) };
    this.element = h("section", { class: "panel act", "aria-labelledby": "act-title" }, h("h2", { id: "act-title" }, "Controls"), Object.values(this.parts));
  }

  /** `info` as in GET /apps, `choices` as in GET /compositions. */
  know(info, choices) {
    const names = choices.map((each) => [each.name, `${each.name} · ${each.notation}`]);
    this.pinned.choose([["", "the active one"], ...names]);
    this.first.choose([["", "all stages sequential"], ...names]);
    const options = Object.entries(info.options.properties ?? {}).map(([name, { default: value }]) => `${name} (${JSON.stringify(value ?? null)})`);
    renew(this.known, options.join(), () => (options.length ? `Options and their defaults: ${options.join(", ")}` : "This app has no options."));
    this.editor.know(info, choices);
  }

  show(status) {
    const running = !["stopped", "failed"].includes(status.state);
    const first = this.running === undefined;
    const asked = JSON.stringify(status.slo, (name, value) => (name === "bound" ? undefined : value)); // it follows the input
    if (this.running === running && this.asked === asked) return;
    if (status.slo && this.asked !== asked && !this.touched) this.fill(status.slo);
    this.asked = asked;
    shown(this.start.element, !running);
    shown(this.stop.element, running);
    this.parts.run.querySelector("h3").textContent = running ? "Stop" : "Start";
    shown(this.parts.mode, running);
    shown(this.parts.input, running);
    this.remove.disabled = !status.slo;
    say(this.inForce, status.slo?.objectives ? `In force: ${format.objective(status.slo)}. An objective set here replaces all of them.` : "");
    if (first || this.running !== running) this.parts.run.open = !running;
    if (first) this.parts.slo.open = running;
    this.running = running;
  }

  // --- objective ---

  objective() {
    this.metric = new Field({ name: "metric", label: "Keep", options: [["latency", "latency"], ["throughput", "throughput"]], onchange: () => this.units() });
    this.statistic = new Field({ name: "statistic", label: "Statistic of the latency", options: Object.entries(format.STATISTIC) });
    this.follows = new Field({ name: "follows", label: "equal to the input rate", type: "checkbox", onchange: () => this.units() });
    this.target = new Field({ name: "target", label: "Target", unit: "ms", inputmode: "decimal" });
    this.threshold = new Field({ name: "threshold", label: "Tolerance beyond the target", unit: "%", value: "20", inputmode: "decimal" });
    this.remove = action("Remove", () => this.slo, () => this.removeSlo());
    this.slo = new Form({ fields: [this.metric, this.statistic, this.follows, this.target, this.threshold], submit: "Set SLO", more: [this.remove], send: () => this.setSlo() });
    this.units();
    // Text that a user is typing stays; otherwise the form shows the objective in force, also if another client set it.
    this.slo.element.addEventListener("input", () => (this.touched = true));
    this.inForce = h("p", { class: "hint" });
    return part("slo", "Service-level objective", this.inForce, this.slo.element);
  }

  units() {
    const latency = this.metric.value === "latency";
    this.target.element.querySelector(".unit").textContent = latency ? "ms" : "items/s";
    shown(this.statistic.element, latency);
    shown(this.follows.element, !latency);
    shown(this.target.element, latency || !this.follows.value);
  }

  fill(slo) {
    this.metric.control.value = slo.metric;
    if (slo.statistic) this.statistic.control.value = slo.statistic;
    this.follows.control.checked = slo.target === "input_rate";
    this.target.control.value = typeof slo.target === "string" ? "" : slo.target;
    this.threshold.control.value = Number((slo.threshold * 100).toPrecision(6));
    this.units();
  }

  async setSlo() {
    const metric = this.metric.value;
    const tolerated = this.threshold.number;
    const body = { app: this.app, metric };
    const follows = metric === "throughput" && this.follows.value;
    if (follows) body.target = "input_rate";
    else if (this.target.number !== null) body.target = this.target.number;
    if (tolerated !== null) body.threshold = typeof tolerated === "number" ? tolerated / 100 : tolerated;
    if (metric === "latency") body.statistic = this.statistic.value;
    const stored = await call("POST", "slo", body);
    this.touched = false;
    return `Set: ${format.objective(stored)}.`;
  }

  async removeSlo() {
    await call("DELETE", `slo/${this.path}`);
    return "Removed. The app keeps running as it is.";
  }

  // --- mode ---

  mode() {
    this.kind = new Field({ name: "mode", label: "The manager", options: [["auto", "adapts"], ["observe", "observes: decides, but does not act"], ["pinned", "keeps one composition"]], onchange: () => shown(this.pinned.element, this.kind.value === "pinned") });
    this.pinned = new Field({ name: "composition", label: "Composition", options: [["", "the active one"]] });
    shown(this.pinned.element, false);
    const form = new Form({ fields: [this.kind, this.pinned], submit: "Set mode", send: () => this.setMode() });
    return part("mode", "Mode", form.element);
  }

  async setMode() {
    const mode = this.kind.value;
    const body = { mode, ...(mode === "pinned" && this.pinned.value && { composition: this.pinned.value }) };
    await call("PUT", `apps/${this.path}/mode`, body);
    return { auto: "The manager adapts.", observe: "The manager observes.", pinned: `Pinned${body.composition ? ` to ${body.composition}` : ""}.` }[mode];
  }

  // --- input ---

  input() {
    this.pattern = new Pattern();
    const form = new Form({ fields: this.pattern.fields, submit: "Change input", send: async () => {
      await call("PUT", `apps/${this.path}/input`, this.pattern.body);
      return "The input has changed.";
    } });
    return part("input", "Input", form.element);
  }

  // --- start and stop ---

  startAndStop() {
    this.rate = new Pattern();
    this.source = new Field({ name: "kind", label: "Items from", options: [["replay", "the app's data set, or files"], ["push", "POST /apps/…/items"], ["video", "video"], ["folder", "a folder that fills"], ["redis", "a Redis stream"], ["kafka", "a Kafka topic"], ["nats", "a NATS stream"], ["mqtt", "an MQTT topic"], ["rabbitmq", "a queue or stream of RabbitMQ"]] });
    this.from = new Field({ name: "path", label: "Path of files, or address (optional for the data set)" });
    this.first = new Field({ name: "composition", label: "First composition", options: [["", "all stages sequential"]] });
    this.strategy = new Field({ name: "strategy", label: "Strategy", options: STRATEGIES });
    this.overload = new Field({ name: "overload", label: "When input is too fast", options: [["block", "the source waits"], ["shed", "the oldest are dropped"]] });
    this.options = new Field({ name: "options", label: "Options, as JSON", value: "{}" });
    this.known = h("p", { class: "hint" });
    const fields = [...this.rate.fields, this.first, this.source, this.from, this.strategy, this.overload, this.options];
    this.start = new Form({ fields, submit: "Start", send: () => this.startApp() });
    this.options.element.append(this.known);
    const now = action("Stop now", () => this.stop, () => this.stopApp({ force: true }));
    this.stop = new Form({ fields: [], submit: "Stop", more: [now], send: () => this.stopApp() });
    this.stop.button.className = "danger";
    this.stop.element.prepend(h("p", { class: "hint" }, "Accepted items are delivered first; “Stop now” gives them up."));
    return part("run", "Start", this.start.element, this.stop.element);
  }

  async startApp() {
    const source = { kind: this.source.value, ...(this.from.value && { path: this.from.value }) };
    const body = { source, input: this.rate.body, strategy: this.strategy.value, overload: this.overload.value, options: this.json() };
    if (this.first.value) body.composition = this.first.value;
    await call("POST", `apps/${this.path}/start`, body);
    this.changed();
    return "Starting.";
  }

  /** The options; text that is not JSON goes to the service unchanged, which refuses it. */
  json() {
    try {
      return JSON.parse(this.options.value || "{}");
    } catch {
      return this.options.value;
    }
  }

  async stopApp(how) {
    await call("POST", `apps/${this.path}/stop`, how);
    this.changed();
    return "Stopped.";
  }
}

/** The fields of an input rate or pattern. */
class Pattern {
  constructor() {
    this.kind = new Field({ name: "pattern", label: "Items arrive", options: PATTERNS, value: "fixed", onchange: () => this.fit() });
    this.rate = new Field({ name: "rate_per_s", label: "Rate", unit: "items/s", value: "10", inputmode: "decimal" });
    this.period = new Field({ name: "period_s", label: "Period", unit: "s", value: "60", inputmode: "decimal" });
    this.min = new Field({ name: "min_per_s", label: "Lowest rate", unit: "items/s", value: "2", inputmode: "decimal" });
    this.max = new Field({ name: "max_per_s", label: "Highest rate", unit: "items/s", value: "12", inputmode: "decimal" });
    this.size = new Field({ name: "size_percent", label: "Length of the spike", unit: "% of the period", value: "10", inputmode: "decimal" });
    this.trace = new Field({ name: "path", label: "Trace file" });
    this.fields = [this.kind, this.rate, this.period, this.min, this.max, this.size, this.trace];
    this.fit();
  }

  used() {
    const kind = this.kind.value;
    if (kind === "") return [];
    if (kind === "fixed") return [this.rate];
    if (kind === "trace") return [this.trace, this.period];
    return [this.period, this.min, this.max, ...(kind === "spike" ? [this.size] : [])];
  }

  fit() {
    const used = this.used();
    for (const field of this.fields.slice(1)) shown(field.element, used.includes(field));
  }

  get body() {
    const kind = this.kind.value;
    const body = kind === "" || kind === "fixed" ? {} : { pattern: kind };
    for (const field of this.used()) if (field.value !== "") body[field.name] = field === this.trace ? field.value : field.number;
    return body;
  }
}
