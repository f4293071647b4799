// Numbers and times as text. A value that was not measured is a dash.

const DASH = "–";

// Created once: creating a format takes longer than using it a hundred times.
const NUMBERS = [0, 1, 2].map((count) => new Intl.NumberFormat("en", { minimumFractionDigits: count, maximumFractionDigits: count }));
const TO_THE_MINUTE = { hour: "2-digit", minute: "2-digit", hour12: false };
const MINUTES = new Intl.DateTimeFormat("en-GB", TO_THE_MINUTE);
const DAYS = new Intl.DateTimeFormat("en-GB", { ...TO_THE_MINUTE, day: "numeric", month: "short" });
const SECONDS = new Intl.DateTimeFormat("en-GB", { ...TO_THE_MINUTE, second: "2-digit" });

function digits(value, count) {
  return NUMBERS[count].format(value).replace(/^-(?=[0.,]*$)/, ""); // no "-0.0"
}

export function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

export function number(value, count = 1) {
  return known(value) ? digits(value, count) : DASH;
}

/** Items per second, without the unit. */
export function rate(value) {
  return known(value) ? digits(value, Math.abs(value) >= 100 ? 0 : 1) : DASH;
}

/** Milliseconds as "181 ms", from ten seconds on as "12.3 s". */
export function time(value) {
  if (!known(value)) return DASH;
  if (value >= 1e4) return `${digits(value / 1000, 1)} s`;
  return `${digits(value, value < 10 ? 2 : value < 100 ? 1 : 0)} ms`;
}

/** Seconds as "95 s", "12.5 min" or "3.4 h". */
export function span(seconds) {
  if (!known(seconds)) return DASH;
  if (seconds < 600) return `${digits(seconds, seconds < 10 ? 1 : 0)} s`;
  return seconds < 7200 ? `${digits(seconds / 60, 1)} min` : `${digits(seconds / 3600, 1)} h`;
}

export function whole(value) {
  return known(value) ? digits(value, 0) : DASH;
}

/** Memory, in the units of 1024. */
export function bytes(value) {
  if (!known(value)) return DASH;
  const [unit, size] = value >= 2 ** 30 ? ["GiB", 2 ** 30] : ["MiB", 2 ** 20];
  return `${digits(value / size, unit === "GiB" ? 1 : 0)} ${unit}`;
}

export function percent(ratio) {
  return known(ratio) ? `${digits(ratio * 100, 0)} %` : DASH;
}

/** A share in per cent, rounded down; above 90 %, with a decimal. */
export function share(ratio) {
  return known(ratio) ? `${digits(Math.floor(ratio * 1000) / 10, ratio > 0.9 && ratio < 1 ? 1 : 0)} %` : DASH;
}

/** Whether other processes than the workers keep more than a quarter of the cores busy; the runner itself uses less. */
export function crowded({ others_cores: others, cores }) {
  return known(others) && others > 0.25 * cores;
}

/** How far `value` lies beyond `bound`, in words; empty if it does not. `fine`: side where the SLO is met, below or above. */
export function beyond(value, bound, fine) {
  if (!known(value) || !known(bound) || bound <= 0) return "";
  const ratio = fine === "below" ? value / bound : bound / Math.max(value, 1e-9);
  if (ratio <= 1) return "";
  if (ratio >= 3) return fine === "below" ? `${digits(ratio, ratio < 10 ? 1 : 0)} times its bound` : `a ${ordinal(ratio)} of its bound`;
  return `${digits(Math.abs(value / bound - 1) * 100, 0)} % ${fine === "below" ? "above" : "below"} its bound`;
}

function ordinal(ratio) {
  return ratio >= 1000 ? "tiny part" : `${Math.round(ratio)}th`;
}

/** Local time of day of a time stamp, or of seconds since 1970. */
export function clock(at, seconds = true) {
  const date = typeof at === "number" ? new Date(at * 1000) : new Date(at);
  return (seconds ? SECONDS : MINUTES).format(date);
}

/** Local day and time, for times that may be long ago. */
export function day(at) {
  return DAYS.format(new Date(at));
}

/** Elapsed seconds as 0:05, 12:30 or 1:12:30. */
export function elapsed(t) {
  const [hours, minutes, seconds] = [Math.floor(t / 3600), Math.floor(t / 60) % 60, Math.floor(t) % 60].map(String);
  return hours === "0" ? `${minutes}:${seconds.padStart(2, "0")}` : `${hours}:${minutes.padStart(2, "0")}:${seconds.padStart(2, "0")}`;
}

/** Milliseconds and rates at the steps of an axis. */
export function axisTime(value) {
  return value === 0 ? "0" : value >= 1000 ? `${number(value / 1000, value % 1000 ? 1 : 0)} s` : `${Number(value.toPrecision(3))} ms`;
}

export function axisRate(value) {
  return Number(value.toPrecision(3)).toLocaleString("en");
}

export const STATISTIC = { mean: "mean", p50: "median", p95: "95th percentile", p99: "99th percentile", share: "time of 95 % of the items" };

/** The objectives of an SLO about `metric`. */
export function goals(slo, metric) {
  return (slo?.objectives ?? [slo]).filter((each) => each?.metric === metric);
}

/** The latency that `goal` judges, out of the known ones. */
export function judged(latency, goal) {
  return latency[goal?.statistic ?? "mean"];
}

/** The missed objective about latency, else the first one; undefined if there is none. */
export function pressing(goals, latency) {
  return goals.find((each) => beyond(judged(latency, each), each.bound, "below")) ?? goals[0];
}

/** The latency that an SLO judges, in words. */
export function statistic(slo) {
  return slo.statistic === "share" ? `of ${percent(slo.share)} of the items` : STATISTIC[slo.statistic];
}

/** A budget as text: `5 workers and 1.5 cores`; fractions of cores have two digits. */
export function budget({ workers, cores }) {
  const count = (value, word) => `${value} ${value === 1 ? word : `${word}s`}`;
  const parts = [known(workers) && count(workers, "worker"), known(cores) && count(Number(cores.toFixed(2)), "core")];
  return parts.filter(Boolean).join(" and ");
}

/** The share of an app, and the effect of a larger share. */
export function grant({ workers, cores, reached, more, reached_with_more: better }) {
  const further = more ? `, ${percent(better)} with ${budget(more)} more` : "";
  return `${budget({ workers, cores })}: ${percent(reached)} of its objective${further}`;
}

/** An SLO as a sentence, with its bound. */
export function objective(slo) {
  if (!slo) return "no SLO";
  const spent = Object.entries(slo.budget ?? {}).filter(([, most]) => most !== null).map(([kind, most]) => `${most} ${kind}`);
  return (slo.objectives ?? [slo]).map(single).join(" and ") + (spent.length ? `, within ${spent.join(" and ")}` : "");
}

function single(slo) {
  if (slo.statistic === "share") return `${percent(slo.share)} of the items within ${time(slo.bound)}`;
  if (slo.metric === "latency") return `${STATISTIC[slo.statistic] ?? ""} latency ≤ ${time(slo.bound)}`.trim(); // telemetry does not contain the share
  if (slo.target === "fastest") return "the highest throughput";
  const target = slo.target === "input_rate" ? "of the input rate" : "";
  return `throughput ≥ ${rate(slo.bound)} items/s ${target && `(${percent(1 - slo.threshold)} ${target})`}`.trim();
}

/** A sentence of the service, with a capital and one full stop. */
export function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1).replace(/[.\s]+$/, "")}.`;
}

/** The cause that holds the stream up, unless it is a load that is too high. */
export function stands(status) {
  return (status.held_up_by ?? []).some((part) => part !== "backlog");
}

export const VERDICT = {
  met: "SLO met",
  violated: "SLO violated",
  infeasible: "SLO out of reach",
  unknown: "too few samples",
  none: "no SLO",
};
