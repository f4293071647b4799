// Samples of every app, one per second for the last quarter of an hour, so that memory stays bounded.

import { goals } from "./format.js";
import { get, segment } from "./service.js";

export const KEPT = 900;
const OF_MANY = 300; // samples of an app whose own page is not open
const GAP_S = 5;

export function fromHistory(sample) {
  const [waits, [rate]] = ["latency", "throughput"].map((metric) => goals(sample.slo, metric));
  return {
    t: Math.floor(Date.parse(sample.at) / 1000),
    composition: sample.composition,
    input: sample.input_rate_per_s,
    output: sample.delivered_per_s ?? sample.throughput_per_s, // throughput_per_s starts anew with each switch, which would show false dips
    mean: sample.latency_ms.mean,
    p50: sample.latency_ms.p50 ?? null,
    p95: sample.latency_ms.p95,
    p99: sample.latency_ms.p99 ?? null,
    share: sample.latency_ms.share ?? null,
    target: waits[0]?.target ?? null,
    latencyBounds: waits.map((each) => each.bound),
    rateBound: rate?.bound ?? null,
    service: sample.service_time_ms,
    bundle: sample.bundle_size ?? null,
    verdict: sample.slo_status,
    offered: sample.offered_per_s ?? sample.input_rate_per_s,
    queued: sample.queued ?? null,
    workers: sample.workers ?? null,
    cpu: sample.cpu_cores ?? null,
  };
}

function fromStatus(status) {
  const service = {};
  for (const stage of status.stages) service[stage.name] = stage.service_time_ms;
  const { slo, latency_ms, input_rate_per_s, throughput_per_s, updated_at: at } = status;
  const composition = status.composition ? status.composition.name : null;
  const beside = { bundle_size: status.batching?.size, slo_status: status.slo_status, queued: status.queued, workers: status.composition?.workers, offered_per_s: status.offered_per_s, delivered_per_s: status.delivered_per_s, cpu_cores: status.cost?.cpu_cores };
  return fromHistory({ at, composition, slo, latency_ms, input_rate_per_s, throughput_per_s, service_time_ms: service, ...beside });
}

export class Samples {
  constructor() {
    this.list = [];
    this.kept = OF_MANY;
    this.missing = -Infinity; // time since which the page may lack samples
  }

  get last() {
    return this.list[this.list.length - 1] ?? null;
  }

  /** Add a status; the newest status of a second replaces earlier ones. */
  push(status) {
    const sample = fromStatus(status);
    const last = this.last;
    if (last && sample.t < last.t) return;
    if (last && sample.t - last.t > GAP_S) this.missing = Math.min(this.missing, last.t);
    if (last && sample.t === last.t) {
      if (sample.verdict === "unknown") sample.verdict = last.verdict; // the verdict is being measured again
      this.list.pop();
    }
    this.list.push(sample);
    if (this.list.length > this.kept) this.list.shift();
  }

  /** Read missed samples from the service's memory. */
  merge(history) {
    const bySecond = new Map(history.map(fromHistory).map((sample) => [sample.t, sample]));
    for (const sample of this.list) bySecond.set(sample.t, sample);
    this.list = [...bySecond.values()].sort((one, other) => one.t - other.t).slice(-this.kept);
  }
}

/** If there is no verdict now, the last verdict on the objective of `status`: {verdict, t}; else null. */
export function verdictBefore(status) {
  const now = fromStatus(status);
  const list = samplesOf(status.app).list;
  for (let index = list.length - 1; index >= 0; index--) {
    const sample = list[index];
    if (sample.target !== now.target || (sample.rateBound === null) !== (now.rateBound === null)) return null;
    if (["met", "violated", "infeasible"].includes(sample.verdict)) return sample;
  }
  return null;
}

/** Samples older than those that the page keeps, as far as the service has them. */
export async function historyOf(app, from, to) {
  const query = new URLSearchParams({ from: stamp(from), to: stamp(to) });
  try {
    return (await get(`history/${segment(app)}?${query}`)).map(fromHistory);
  } catch {
    return []; // the gap stays a gap
  }
}

/** Seconds since 1970 in the form used in addresses. */
export function stamp(t) {
  return new Date(Math.round(t) * 1000).toISOString().replace(".000", "");
}

/** Merge older and newer samples into one list. */
export function joined(older, newer) {
  const first = newer[0]?.t ?? Infinity;
  return [...older.filter((sample) => sample.t < first), ...newer];
}

const byApp = new Map();

export function samplesOf(app) {
  if (!byApp.has(app)) byApp.set(app, new Samples());
  return byApp.get(app);
}

/** Fetch missing samples, also those that earlier runners have written. If the service has none, the gap stays. */
export async function fillGap(app) {
  const samples = samplesOf(app);
  samples.kept = KEPT;
  const now = Date.now() / 1000;
  const from = Math.max(now - KEPT, Math.min(samples.missing, samples.last?.t ?? now) - GAP_S);
  try {
    samples.merge(await get(`history/${segment(app)}?from=${encodeURIComponent(stamp(from))}`));
    samples.missing = Infinity;
  } catch {
    return;
  }
}

/** The rates of all apps in the last seconds, as pairs of a name and samples; empty if the service has none. */
export async function ratesOf(last) {
  try {
    return (await get(`rates?last_s=${last}`)).map((each) => [each.app, each.at.map((at, index) => ({ t: Math.floor(Date.parse(at) / 1000), offered: each.offered_per_s[index], output: each.delivered_per_s[index] }))]);
  } catch {
    return [];
  }
}
