// State, verdict and mode of an app, each as a coloured word.

import { h, renew } from "./dom.js";
import * as format from "./format.js";
import { verdictBefore } from "./samples.js";

export function showChips(place, status) {
  const before = status.slo_status === "unknown" && !resting(status) ? verdictBefore(status) : null;
  renew(place, [status.state, status.slo_status, status.mode, before?.verdict, before?.t, status.alerts?.length, format.stands(status)].join(), () => chips(status, before));
}

export function resting(status) {
  return ["stopped", "failed"].includes(status.state);
}

function chips(status, before) {
  const list = [h("span", { class: "chip", "data-state": status.state }, status.state)];
  if (status.alerts?.length) list.push(h("span", { class: "chip", "data-slo": "violated" }, status.alerts.length === 1 ? "alert" : `${status.alerts.length} alerts`));
  if (before) list.push(h("span", { class: "chip before", "data-slo": before.verdict }, `${format.VERDICT[before.verdict]} until ${format.clock(before.t)}`), status.state === "starting" ? null : h("span", { class: "chip" }, "measuring again"));
  else if (!resting(status) || status.slo_status !== "unknown") list.push(h("span", { class: "chip", "data-slo": status.slo_status }, format.VERDICT[status.slo_status]));
  if (format.stands(status) && !resting(status)) list.push(h("span", { class: "chip", "data-slo": "infeasible" }, "held up"));
  if (status.mode !== "auto") list.push(h("span", { class: "chip", "data-mode": status.mode }, status.mode));
  return list;
}
