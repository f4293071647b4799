// The figures at the top of an app: input and output, whether the SLO is met, and the cost.

import { resting } from "./chips.js";
import { h, say } from "./dom.js";
import * as format from "./format.js";

const TILES = ["Input rate", "Throughput", "Latency", "Backlog", "Workers", "Worker time", "SLO met", "Items"];

export class Figures {
  constructor() {
    this.tiles = Object.fromEntries(TILES.map((label) => [label, tile(label)]));
    this.element = h("dl", { class: "tiles" }, Object.values(this.tiles).map((each) => each.element));
  }

  show(status) {
    this.load(status);
    this.objective(status);
    this.cost(status);
    const { items } = status;
    const lost = [items.failed && `${format.whole(items.failed)} failed`, items.shed && `${format.whole(items.shed)} dropped`].filter(Boolean).join(", ");
    const since = status.began_at ? ` since ${format.clock(status.began_at, false)}` : "";
    this.tiles.Items.set(format.whole(items.delivered), "out", (lost || `${format.whole(items.accepted)} in`) + since, lost && "infeasible");
  }

  load(status) {
    const offered = status.offered_per_s ?? status.input_rate_per_s;
    const admitted = status.admitted_per_s;
    const short = format.known(admitted) && format.known(offered) && admitted < 0.95 * offered;
    const missed = status.missed ? `, ${format.whole(status.missed)} missed` : "";
    this.tiles["Input rate"].set(format.rate(offered), "items/s", (short ? `only ${format.rate(admitted)}/s admitted` : "") + missed.slice(short ? 0 : 2), short && "infeasible");
    const late = status.lag_s > 1 ? `source ${format.number(status.lag_s)} s behind` : `${format.whole(status.in_flight)} in work`;
    this.tiles.Backlog.set(format.whole(status.queued), "waiting", late, status.held_up && "infeasible");
  }

  objective(status) {
    const { slo, latency_ms: latency } = status;
    const waits = format.goals(slo, "latency");
    const [wait, rate] = [format.pressing(waits, latency), format.goals(slo, "throughput")[0]];
    // Of several objectives, only a missed one gets the colour of a violation.
    const verdict = (goal, missed) => goal && (slo.objectives && status.slo_status === "violated" && !missed ? "met" : status.slo_status);
    const delivered = status.slo_status === "unknown" ? (status.delivered_per_s ?? status.throughput_per_s) : status.throughput_per_s;
    const short = rate ? format.beyond(delivered, rate.bound, "above") : "";
    const words = rate ? short || `bound ${format.rate(rate.bound)}` : "delivered";
    this.tiles.Throughput.set(format.rate(delivered), "items/s", words + across(delivered, status.delivered_per_s), verdict(rate, short));
    const known = format.judged(latency, wait);
    const late = wait ? format.beyond(known, wait.bound, "below") : "";
    const others = waits.filter((each) => each !== wait).map((each) => `; ${format.statistic(each)} ${format.time(format.judged(latency, each))}, bound ${format.time(each.bound)}`);
    const [value, unit] = format.time(known).split(" ");
    // Items that are due and wait are judged too, so the objective can be missed by more than the delivered items show.
    const behind = wait && !late && !slo.objectives && status.slo_status === "violated" && status.queued > 0 ? "; waiting items will be late" : "";
    const told = wait ? `${format.statistic(wait)}, ${late || "bound"} ${format.time(wait.bound)}${others.join("")}${behind}` : `mean; p95 ${format.time(latency.p95)}`;
    this.tiles.Latency.set(value, unit ?? "", told, verdict(wait, late));
    const since = status.began_at ? `of the time since ${format.clock(status.began_at, false)}` : "of the time";
    this.tiles["SLO met"].set(format.share(status.slo_met_share), "", format.known(status.slo_met_share) ? since : "no verdict yet");
  }

  cost(status) {
    const { cost, composition, began_at: began } = status;
    const spare = cost?.spares ? ` + ${cost.spares} spare` : "";
    const others = cost && format.crowded(cost) ? `, others ${format.number(cost.others_cores)}` : "";
    const cores = cost ? `on ${cost.cores} ${cost.cores === 1 ? "core" : "cores"}${format.known(cost.cpu_cores) ? `, ${format.number(cost.cpu_cores)} busy${others}` : ""}` : "";
    if (resting(status)) this.tiles.Workers.set("0", "", "nothing runs");
    else this.tiles.Workers.set(format.whole(cost?.workers ?? composition?.workers), spare, cores);
    const cpu = format.known(cost?.cpu_s) ? `${format.span(cost.cpu_s)} of CPU` : "";
    const [value, unit] = format.span(cost?.worker_s).split(" ");
    this.tiles["Worker time"].set(value, unit ?? "", [cpu, cpu && began && `since ${format.clock(began, false)}`].filter(Boolean).join(" "));
  }
}

/** The judged rate starts anew with a change; the chart's rate does not. */
function across(judged, whole) {
  const apart = format.known(judged) && format.known(whole) && Math.abs(judged - whole) > 0.1 * Math.max(judged, whole);
  return apart ? `; ${format.rate(whole)} across the last change` : "";
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
