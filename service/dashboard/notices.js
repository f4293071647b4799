// The notices about an app's state: stopped, starting, failed, SLO out of reach, overloaded.

import { h, renew } from "./dom.js";
import * as format from "./format.js";

const SHED_S = 10;

/** Notices about special states: stopped, starting, failed, SLO out of reach. */
export class Notice {
  constructor() {
    this.element = h("div", { class: "notices" });
    this.load = h("div", { class: "notices load" });
    this.shed = [];
  }

  show(status) {
    renew(this.element, JSON.stringify([status.state, status.slo_status, status.slo_note, status.failure, status.mode, status.run, status.epoch, status.alerts]), () => noticesOf(status));
    const told = overload(status, this.dropped(status));
    renew(this.load, told?.join() ?? "", () => (told ? notice("warn", ...told) : []));
  }

  /** Items dropped in the last seconds. */
  dropped({ items, updated_at: at }) {
    const now = Date.parse(at) / 1000;
    this.shed = this.shed.filter(([t, count]) => now - t <= SHED_S && count <= items.shed);
    this.shed.push([now, items.shed]);
    return items.shed - this.shed[0][1];
  }
}

/** Title and text of the notice about an overload; null if there is none. */
function overload(status, dropped) {
  if (!status.held_up && dropped === 0) return null;
  const rates = `${format.rate(status.offered_per_s ?? status.input_rate_per_s)}/s offered, ${format.rate(status.admitted_per_s ?? status.input_rate_per_s)}/s admitted, ${format.rate(status.throughput_per_s)}/s delivered; ${format.whole(status.queued)} wait.`;
  if (dropped > 0) return ["Shedding.", `${format.whole(dropped)} items were dropped in the last ${SHED_S} seconds: ${rates}`];
  return [status.lag_s > 1 ? "Source held back." : "Held up.", status.lag_s > 1 ? `${rates} The next item is overdue by ${format.number(status.lag_s)} s.` : `${rates} ${format.sentence(status.held_up)}`];
}

/** What would help; more cores would not, while the present ones are idle. */
function wouldHelp({ cost }) {
  const idle = format.known(cost?.cpu_cores) && cost.cpu_cores + (cost.others_cores ?? 0) < 0.5 * cost.cores;
  return idle ? "A wider list of compositions or another SLO would help." : "More cores, another composition or another SLO would help.";
}

function starting(heldUp) {
  const known = "Workers are being started; a large data set may take a while.";
  return heldUp ? `${known} Now: ${heldUp}.` : known;
}

function noticesOf(status) {
  const notices = (status.alerts ?? []).map(({ at, told }) => notice("bad", `Alert since ${format.clock(at)}:`, `${told}.`));
  if (status.started_again) notices.push(notice("warn", "Runner replaced", `${status.began_at ? `at ${format.clock(status.began_at)}` : "now"} (${status.started_again}). ${status.durability === "none" ? "Serial numbers begin at 0 again." : "The new runner continues the run."}`));
  if (status.state === "stopped") notices.push(notice("", "Stopped.", `Nothing runs. Start it below.${status.items.delivered ? " Totals are those of the last run." : ""}`));
  if (status.state === "starting") notices.push(notice(status.failure ? "warn" : "", "Starting.", starting(status.held_up)));
  if (status.state === "stopping") notices.push(notice("", "Stopping.", "Accepted items are delivered first. “Stop now” gives up the rest."));
  if (status.state === "profiling") notices.push(notice("", "Profiling.", "The first items show how long each stage takes; then the manager decides."));
  if (status.state === "failed") notices.push(failed(status.failure));
  else if (status.failure) notices.push(notice("warn", "Trouble.", status.failure));
  if (status.slo_status === "infeasible") notices.push(notice("warn", "The SLO is out of reach.", `No known composition can meet ${format.objective(status.slo)} here. ${status.composition ? `${status.composition.name} is the best found and stays active.` : ""} ${wouldHelp(status)} “What if” shows which.`));
  if (status.slo_note) notices.push(notice("", "Objective without effect.", format.sentence(status.slo_note)));
  if (status.mode === "observe") notices.push(notice("", "Observing.", "The manager decides and reports, but does not act."));
  return notices;
}

function notice(kind, title, text) {
  return h("p", { class: `notice ${kind}` }, h("strong", {}, title), ` ${text}`);
}

function failed(failure) {
  const lines = (failure ?? "The reason is in the service's log.").trim().split("\n");
  const rest = lines.length > 1 ? h("details", {}, h("summary", {}, "Full text"), h("pre", { tabindex: "0" }, lines.join("\n"))) : null;
  return h("div", { class: "notice bad" }, h("strong", {}, "Failed."), ` ${lines[lines.length - 1]}`, rest);
}
