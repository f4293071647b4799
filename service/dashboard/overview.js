// The overview, with a card for each app.

import { resting, showChips } from "./chips.js";
import { h, renew, s, say, shown } from "./dom.js";
import * as format from "./format.js";
import { Nodes } from "./nodes.js";
import { joined, ratesOf, samplesOf } from "./samples.js";
import { segment } from "./service.js";

const SPARK_S = 300;
const SPARK_EVERY_MS = 1000;

const RANK = { failed: 0, infeasible: 1, violated: 2, unknown: 3, none: 5, met: 4 };

/** Order of the apps: those in the worst state first, stopped ones last. */
function rank(status) {
  if (status.state === "failed") return RANK.failed;
  if (status.state === "stopped") return 9;
  return Math.min(RANK[status.slo_status], format.stands(status) ? RANK.violated : 9);
}

export class Overview {
  constructor() {
    this.cards = new Map();
    this.list = h("div", { class: "cards" }, loading());
    this.atRest = h("div", { class: "cards compact" });
    this.rest = h("section", { "aria-labelledby": "rest-title", hidden: true }, h("h2", { id: "rest-title" }, "Stopped"), this.atRest);
    this.notice = h("div");
    this.nodes = new Nodes();
    this.fleet = h("p", { class: "fleet" });
    this.shares = h("p", { class: "fleet shares", hidden: true });
    this.element = h("div", { class: "overview" }, h("h1", {}, "Apps"), this.notice, this.fleet, this.shares, this.list, this.nodes.element, this.rest);
    this.sparkDue = 0;
  }

  show(statuses) {
    this.nodes.look();
    if (this.list.firstElementChild?.classList.contains("loading")) this.list.replaceChildren();
    if (statuses.length === 0) return renew(this.list, "empty", empty);
    for (const status of statuses) this.card(status.app).show(status);
    this.arrange(statuses);
    tell(this.fleet, fleet(statuses));
    tell(this.shares, shares(statuses));
    shown(this.shares, shares(statuses).length > 0);
    const now = performance.now();
    if (now < this.sparkDue) return;
    this.sparkDue = now + SPARK_EVERY_MS;
    this.draw();
  }

  card(app) {
    if (!this.cards.has(app)) this.cards.set(app, new Card(app));
    return this.cards.get(app);
  }

  /** Move the cards only if the order has changed, and not while a card has the focus. */
  arrange(statuses) {
    const order = [...statuses].sort((one, other) => rank(one) - rank(other) || one.app.localeCompare(other.app));
    const key = order.map((status) => `${status.app} ${status.state === "stopped"}`).join();
    if (key === this.order || (this.order !== undefined && this.element.contains(document.activeElement))) return;
    this.order = key;
    const [stopped, running] = [true, false].map((yes) => order.filter((status) => (status.state === "stopped") === yes).map((status) => this.card(status.app).element));
    this.list.replaceChildren(...running);
    this.atRest.replaceChildren(...stopped);
    shown(this.rest, stopped.length > 0);
  }

  /** Read, in one answer for all apps, the samples from before the page was opened or from a time without connection. */
  async catchUp() {
    for (const [app, samples] of await ratesOf(SPARK_S)) this.card(app).before = samples;
    this.draw();
  }

  draw() {
    for (const card of this.cards.values()) if (card.element.dataset.state !== "stopped") card.draw();
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
  return h("p", { class: "notice warn" }, h("strong", {}, "The service does not answer."), ` The figures are from ${since}. Trying again; the gap will be filled afterwards.`);
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
    this.before = [];
    this.name = h("a", { href: `#/app/${segment(app)}` }, app);
    this.chips = h("p", { class: "chips" });
    this.composition = h("p", { class: "notation" });
    this.figures = ["Input", "Output", "Latency", "Workers", "SLO met in this run"].map((label) => ({ value: h("dd"), element: null, label }));
    const figures = h("dl", { class: "mini" }, this.figures.map((each) => h("div", {}, h("dt", {}, each.label), each.value)));
    this.words = h("p", { class: "hint" });
    this.last = h("p", { class: "last" });
    this.scale = h("p", { class: "scale" });
    this.spark = s("svg", { class: "spark", viewBox: "0 0 300 56", preserveAspectRatio: "none", role: "img", "aria-label": "Input rate and throughput of the last 5 minutes" }, s("path", { class: "input" }), s("path", { class: "output" }));
    this.element = h("article", { class: "card" }, h("h2", {}, this.name), this.chips, this.composition, figures, this.spark, this.scale, this.last, this.words);
  }

  show(status) {
    this.element.dataset.state = status.state;
    this.element.dataset.slo = format.stands(status) && status.slo_status !== "violated" ? "infeasible" : status.slo_status;
    showChips(this.chips, status);
    say(this.composition, status.composition ? `${status.composition.name} · ${status.composition.notation}` : "");
    const wait = format.pressing(format.goals(status.slo, "latency"), status.latency_ms);
    const latency = format.judged(status.latency_ms, wait);
    const bound = wait ? ` / ${format.time(wait.bound)}` : "";
    const share = format.known(status.slo_met_share) ? `${format.share(status.slo_met_share)} of the time` : "–";
    const values = [`${format.rate(status.offered_per_s ?? status.input_rate_per_s)}/s`, `${format.rate(status.throughput_per_s)}/s`, format.time(latency) + bound, workersOf(status), share];
    this.figures.forEach((figure, index) => say(figure.value, values[index]));
    this.figures[3].value.title = spareText(status);
    say(this.words, words(status));
    renew(this.last, JSON.stringify(status.last_decision), () => lastOf(status.last_decision));
  }

  draw() {
    const until = this.before[this.before.length - 1]?.t ?? -Infinity;
    const list = joined(this.before, samplesOf(this.app).list.filter((sample) => sample.t > until));
    const end = list.length ? list[list.length - 1].t : 0;
    const seen = list.filter((sample) => sample.t > end - SPARK_S);
    const most = Math.max(0, ...seen.map((sample) => Math.max(sample.offered ?? 0, sample.output ?? 0)));
    say(this.scale, `5 minutes, up to ${format.rate(most)}/s`);
    const top = Math.max(1e-9, most) * 1.08;
    const line = (key) => path(seen.map((sample) => [300 - (end - sample.t), sample[key] === null ? null : 54 - (52 * sample[key]) / top]));
    ["offered", "output"].forEach((key, index) => this.spark.children[index].setAttribute("d", line(key)));
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

/** A summary of all apps: how many run and meet their objectives, and the resources that they use. */
function fleet(statuses) {
  const running = statuses.filter((status) => !resting(status));
  const count = (verdict) => running.filter((status) => status.slo_status === verdict).length;
  const failed = statuses.filter((status) => status.state === "failed").length;
  const verdicts = [[failed, "failed"], [count("infeasible"), "out of reach"], [count("violated"), "violated"], [count("met"), "met"]].filter(([number]) => number > 0).map(([number, word]) => `${number} ${word}`);
  const sum = (of) => running.reduce((total, { cost }) => total + ((cost && of(cost)) ?? 0), 0);
  const cores = Math.max(0, ...running.map(({ cost }) => cost?.cores ?? 0));
  const taken = `${format.whole(sum((cost) => cost.workers))} workers in use + ${format.whole(sum((cost) => cost.spares))} spare${cores ? ` on ${cores} ${cores === 1 ? "core" : "cores"}, ${format.number(sum((cost) => cost.cpu_cores))} busy` : ""}`;
  return [`${running.length} of ${statuses.length} running`, ...verdicts, ...(running.length ? [taken] : [])];
}

/** The machine's budget and each app's share; nothing if there is no budget. */
function shares(statuses) {
  const given = statuses.filter((status) => status.grant && !resting(status));
  return given.length === 0 ? [] : [`Budget ${format.budget(given[0].grant.total)}`, ...given.map(({ app, grant }) => `${app} ${format.grant(grant)}`)];
}

function tell(line, texts) {
  renew(line, JSON.stringify(texts), () => texts.flatMap((text, index) => [index ? " · " : null, h("span", {}, text)]));
}

function workersOf({ cost, composition }) {
  if (!cost) return format.whole(composition?.workers);
  return `${cost.workers}${cost.spares ? ` + ${cost.spares}` : ""} on ${cost.cores} ${cost.cores === 1 ? "core" : "cores"}`;
}

/** The purpose and the cost of spare workers. */
function spareText({ cost, workers }) {
  if (!cost?.spares) return "";
  const memory = workers.filter((worker) => worker.group === null).reduce((total, worker) => total + (worker.memory_bytes ?? 0), 0);
  return `${cost.spares} spare: started and idle, so that a change or a lost worker need not wait for a new process${memory ? `; ${format.bytes(memory)} of memory` : ""}`;
}

/** The last decision, as the reason for the present state. */
function lastOf(decision) {
  if (!decision) return [];
  const moved = decision.from === decision.to ? `stays with ${decision.to}` : `${decision.from} → ${decision.to}`;
  return [h("time", { datetime: decision.at }, format.clock(decision.at, false)), " ", h("b", {}, moved), h("span", { title: decision.reason }, ` · ${decision.reason}`)];
}

function words(status) {
  if (status.alerts?.length) return `Alert: ${status.alerts.at(-1).told}.`;
  if (status.state === "failed") return `Nothing runs: ${(status.failure ?? "it has failed.").trim().split("\n").pop()}`;
  if (status.state === "stopped") return "Stopped";
  if (status.state === "starting") return status.held_up ? `Starting: ${status.held_up}.` : "Workers are starting.";
  if (status.state === "stopping") return "Stopping: accepted items are delivered first.";
  if (status.held_up) return format.sentence(status.held_up);
  return format.objective(status.slo);
}
