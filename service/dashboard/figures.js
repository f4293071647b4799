// The figures at the top of an app, and the notice about its state.

import { h, renew, say } from "./dom.js";
import * as format from "./format.js";

export class Figures {
  constructor() {
    this.tiles = Object.fromEntries(["Input rate", "Throughput", "Latency", "Workers", "Items"].map((label) => [label, tile(label)]));
    this.element = h("dl", { class: "tiles" }, Object.values(this.tiles).map((each) => each.element));
    this.held = h("p", { class: "held-up", hidden: true });
  }

  show(status) {
    const { slo, latency_ms: latency, items } = status;
    const statistic = slo?.metric === "latency" ? slo.statistic : "mean";
    const verdict = { latency: slo?.metric === "latency", throughput: slo?.metric === "throughput" };
    const workers = status.composition?.workers;
    this.tiles["Input rate"].set(format.rate(status.input_rate_per_s), "items/s", `${format.whole(status.queued)} waiting, ${format.whole(status.in_flight)} in work`);
    this.tiles.Throughput.set(format.rate(status.throughput_per_s), "items/s", verdict.throughput ? `bound ${format.rate(slo.bound)}` : "", verdict.throughput && status.slo_status);
    const [value, unit] = format.time(latency[statistic]).split(" ");
    this.tiles.Latency.set(value, unit ?? "", verdict.latency ? `${format.statistic(slo)}, bound ${format.time(slo.bound)}` : `mean; p95 ${format.time(latency.p95)}`, verdict.latency && status.slo_status);
    this.tiles.Workers.set(format.whole(workers), "", status.composition ? `composition ${status.composition.name}` : "");
    const lost = [items.failed && `${format.whole(items.failed)} failed`, items.shed && `${format.whole(items.shed)} dropped`].filter(Boolean).join(", ");
    this.tiles.Items.set(format.whole(items.delivered), "out", lost || `${format.whole(items.accepted)} in`);
    say(this.held, status.held_up ?? "");
    this.held.hidden = !status.held_up;
  }
}

function tile(label) {
  const [value, unit, note] = [h("b"), h("span", { class: "unit" }), h("span", { class: "note" })];
  const element = h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value, " ", unit, note));
  const set = (text, units, words, verdict) => {
    say(value, text);
    say(unit, units);
    say(note, words);
    element.dataset.slo = verdict || "";
  };
  return { element, set };
}

/** What is special about the state: stopped, starting, failed, out of reach. */
export class Notice {
  constructor() {
    this.element = h("div", { class: "notices" });
  }

  show(status) {
    renew(this.element, JSON.stringify([status.state, status.slo_status, status.failure, status.no_change, status.mode, status.run]), () => noticesOf(status));
  }
}

function noticesOf(status) {
  const notices = [];
  if (status.started_again) notices.push(notice("warn", "Runner started again", `${status.began_at ? `at ${format.clock(status.began_at)}` : "now"} (${status.started_again}). Serial numbers begin at 0 with it.`));
  if (status.state === "stopped") notices.push(notice("", "Stopped.", "Nothing runs. Start it below; figures are those of the last run."));
  if (status.state === "starting") notices.push(notice("", "Starting.", "Workers are being started; a large data set may take a while."));
  if (status.state === "profiling") notices.push(notice("", "Profiling.", "The first items tell what every stage costs; then the manager decides."));
  if (status.state === "failed") notices.push(failed(status.failure));
  else if (status.failure) notices.push(notice("warn", "Trouble.", status.failure));
  if (status.slo_status === "infeasible") notices.push(notice("warn", "The SLO is out of reach.", `No known composition can meet ${format.objective(status.slo)} here. ${status.composition ? `${status.composition.name} is the best found and stays active.` : ""} More cores, another composition or another SLO would help; “What if” tells which.`));
  if (status.mode === "observe") notices.push(notice("", "Observing.", "The manager decides and reports, but does not act."));
  return notices;
}

function notice(kind, title, text) {
  return h("p", { class: `notice ${kind}` }, h("strong", {}, title), ` ${text}`);
}

function failed(failure) {
  const lines = (failure ?? "The reason is in the service's log.").trim().split("\n");
  const rest = lines.length > 1 ? h("details", {}, h("summary", {}, "All of it"), h("pre", { tabindex: "0" }, lines.join("\n"))) : null;
  return h("div", { class: "notice bad" }, h("strong", {}, "Failed."), ` ${lines[lines.length - 1]}`, rest);
}
