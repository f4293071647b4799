// The charts of an app, over the same period and with one cursor.

import { h, renew, s, say, shown } from "./dom.js";
import * as format from "./format.js";
import { Chart, PAD, chosen, holes, nearest } from "./chart.js";
import { HUES, hueOf } from "./names.js";
import { KEPT, historyOf, joined, samplesOf, stamp } from "./samples.js";
import { segment } from "./service.js";

const LENGTHS_S = { "2 minutes": 120, "5 minutes": 300, "15 minutes": 900, hour: 3600, "6 hours": 21600, day: 86400 };
const LEAST_S = 2; // a click with a slight movement does not select a range
const BAND_HEIGHT = 58;
const HOLES_TOLD = 3;

const LATENCIES = [
  { key: "mean", label: "mean", of: (sample) => sample.mean },
  { key: "p50", label: "p50", of: (sample) => sample.p50, off: true },
  { key: "p95", label: "p95", of: (sample) => sample.p95 },
  { key: "p99", label: "p99", of: (sample) => sample.p99, off: true },
  { key: "share", label: "required share", of: (sample) => sample.share, rare: true },
];

const { axisRate, axisTime } = format;

export class Charts {
  constructor(app) {
    this.samples = samplesOf(app);
    Object.assign(this, { app, cursor: null, range: null, past: [], drag: null, began: null, again: null });
    this.live = h("button", { type: "button", hidden: true, onclick: () => (location.hash = `#/app/${segment(app)}`) }, "Back to now");
    this.log = h("input", { type: "checkbox", id: "log", onchange: () => this.rescale() });
    this.told = h("span", { class: "hint" });
    this.length = h("select", { id: "length", onchange: () => this.lengthen() }, Object.entries(LENGTHS_S).map(([label, value]) => h("option", { value, selected: value === 300 }, label)));
    this.rates = new Chart({ title: "Offered and delivered", unit: "items per second", lines: [{ key: "input", label: "offered", of: (sample) => sample.offered }, { key: "output", label: "delivered", of: (sample) => sample.output }], limits: (sample) => [sample.rateBound], fine: "above", format: (value, exact) => (exact ? `${format.rate(value)}/s` : axisRate(value)) });
    this.latency = new Chart({ title: "Latency", unit: "milliseconds", lines: LATENCIES, limits: (sample) => sample.latencyBounds, format: (value, exact) => (exact ? format.time(value) : axisTime(value)) });
    this.bundles = new Chart({ title: "Bundle size", unit: "items", lines: [{ key: "output", label: "size", of: (sample) => sample.bundle }], format: (value, exact) => (exact ? format.whole(value) : axisRate(value)), height: 110 });
    this.backlog = new Chart({ title: "Backlog", unit: "items", lines: [{ key: "p95", label: "waiting", of: (sample) => sample.queued }], format: (value, exact) => (exact ? format.whole(value) : axisRate(value)), height: 110 });
    this.workers = new Chart({ title: "Workers in use and cores they keep busy", unit: "workers, cores", lines: [{ key: "hue4", label: "workers", of: (sample) => sample.workers }, { key: "hue1", label: "busy cores", of: (sample) => sample.cpu }], format: (value, exact) => (exact ? format.number(value, Number.isInteger(value) ? 0 : 2) : axisRate(value)), height: 110 });
    this.bands = new Bands();
    this.stages = null;
    this.stagePlace = h("div");
    this.lost = h("p", { class: "hint lost" });
    this.gone = h("p", { class: "hint" }, "Nothing has been measured yet.");
    this.figures = h("div", { class: "charts" }, this.rates.element, this.latency.element, this.backlog.element, this.bundles.element, this.bands.element, this.workers.element, this.stagePlace);
    this.element = h("section", { class: "panel", "aria-labelledby": "charts-title" }, h("div", { class: "row" }, h("h2", { id: "charts-title" }, "Timeline"), this.told, this.live, h("label", {}, this.log, " latency on a log scale"), h("label", {}, "Last ", this.length)), this.gone, this.lost, this.figures);
    this.figures.addEventListener("pointermove", (event) => this.point(event));
    this.figures.addEventListener("pointerleave", () => this.moveTo(null));
    this.figures.addEventListener("pointerdown", (event) => this.mark(event));
    this.figures.addEventListener("keydown", (event) => this.step(event));
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.figures);
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** Take what the samples do not contain: the names of the stages, in the app's order, and the present runner. */
  know({ stages: each, slo, began_at: began, started_again: again }) {
    this.judge(format.goals(slo, "latency").map((goal) => goal.statistic));
    const stages = each.map((stage) => stage.name);
    Object.assign(this, { began: began ? Date.parse(began) / 1000 : null, again });
    if (renew(this.stagePlace, stages.join(), () => this.stageChart(stages))) this.draw();
  }

  /** Draw the curve that an objective judges, even if the user did not select it. */
  judge(statistics) {
    if (statistics.join() === this.judged) return;
    this.judged = statistics.join();
    for (const line of LATENCIES) if (statistics.includes(line.key)) this.latency.turn(line, true);
  }

  stageChart(stages) {
    const lines = stages.map((name, index) => ({ key: `hue${index % HUES}`, label: name, of: (sample) => sample.service[name] ?? null }));
    this.stages = new Chart({ title: "Service time per stage", unit: "milliseconds", lines, format: (value, exact) => (exact ? format.time(value) : axisTime(value)) });
    this.stages.log = this.log.checked;
    return this.stages.element;
  }

  view() {
    const list = this.range || Number(this.length.value) > KEPT ? joined(this.past, this.samples.list) : this.samples.list;
    const to = this.range?.to ?? (list.length ? list[list.length - 1].t : Date.now() / 1000);
    const from = this.range?.from ?? to - Number(this.length.value);
    const samples = list.filter((sample) => sample.t >= from && sample.t <= to);
    const marks = samples.slice(1).flatMap((sample, index) => {
      const before = samples[index].composition;
      return sample.composition && before && sample.composition !== before ? [{ t: sample.t, from: before, to: sample.composition }] : [];
    });
    const gap = gapOf(samples);
    return { samples, from, to, marks, cursor: this.cursor, drag: this.drag, gap, holes: this.holes(samples, gap) };
  }

  /** Periods between samples without measurements, with the reason if it is known. */
  holes(samples, gap) {
    const found = samples.slice(1).flatMap(({ t }, index) => (t - samples[index].t > gap ? [{ from: samples[index].t, to: t }] : []));
    return found.map((hole) => {
      const restart = this.again && this.began > hole.from - 1 && this.began < hole.to + 1 ? `: the runner was replaced (${this.again})` : "";
      return { ...hole, told: `Nothing measured from ${format.clock(hole.from)} to ${format.clock(hole.to)}${restart}` };
    });
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const view = this.view();
      const measured = view.samples.some(({ offered, output, mean }) => (offered ?? output ?? mean) !== null);
      shown(this.gone, !measured);
      shown(this.figures, measured);
      say(this.lost, view.holes.slice(-HOLES_TOLD).map((hole) => `${hole.told}.`).join(" "));
      const together = view.samples.some((sample) => sample.bundle > 1);
      const waiting = view.samples.some((sample) => sample.queued > 0);
      shown(this.bundles.element, together);
      shown(this.backlog.element, waiting);
      for (const chart of [this.rates, this.latency, waiting && this.backlog, together && this.bundles, this.bands, this.workers, this.stages]) chart && chart.draw(view);
    });
  }

  /** The time under the pointer, in seconds; null if the pointer is not on a chart. */
  momentAt(event) {
    const box = this.rates.svg.getBoundingClientRect();
    const view = this.view();
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    return share < 0 || share > 1 ? null : view.from + share * (view.to - view.from);
  }

  point(event) {
    const at = this.momentAt(event);
    if (this.drag && at !== null) this.drag.to = at;
    this.moveTo(at);
  }

  /** Select a range by dragging; the page then has the range's address. */
  mark(event) {
    const at = this.momentAt(event);
    if (at === null || event.button !== 0 || !event.target.closest("svg")) return;
    this.drag = { from: at, to: at };
    const end = () => {
      const [from, to] = [Math.min(this.drag.from, this.drag.to), Math.max(this.drag.from, this.drag.to)];
      this.drag = null;
      if (to - from >= LEAST_S) this.goTo(from, to);
      else this.draw();
    };
    addEventListener("pointerup", end, { once: true });
  }

  goTo(from, to) {
    location.hash = `#/app/${segment(this.app)}?from=${stamp(from)}&to=${stamp(to)}`;
  }

  /** The period that the address names: a range, or the present. */
  show(query) {
    const [from, to] = ["from", "to"].map((name) => Date.parse(query.get(name) ?? "") / 1000);
    this.range = from < to ? { from, to } : null;
    shown(this.live, this.range !== null);
    this.length.disabled = this.range !== null;
    say(this.told, this.range ? `${format.clock(from)} – ${format.clock(to)}` : "");
    this.reach(from);
  }

  lengthen() {
    this.reach(Date.now() / 1000 - Number(this.length.value));
  }

  /** Request samples that are older than those that the page keeps. */
  async reach(from) {
    const back = Math.ceil(Date.now() / 1000 - from);
    if (back > KEPT) this.past = await historyOf(this.app, from, this.range?.to ?? Date.now() / 1000);
    this.draw();
  }

  rescale() {
    for (const chart of [this.latency, this.stages]) if (chart) chart.log = this.log.checked;
    this.draw();
  }

  /** Zoom around the cursor, or the middle; a factor below 1 zooms in. */
  zoom(factor) {
    const { from, to, cursor } = this.view();
    const middle = cursor ?? (from + to) / 2;
    const now = Date.now() / 1000;
    const [left, right] = [middle - (middle - from) * factor, Math.min(now, middle + (to - middle) * factor)];
    if (right - left >= LEAST_S) this.goTo(left, right);
  }

  step(event) {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.moveTo(null);
    if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 0.5 : 2);
    if (!direction) return;
    event.preventDefault();
    const { from, to } = this.view();
    this.moveTo(Math.min(to, Math.max(from, (this.cursor ?? to) + (direction * (to - from)) / 60)));
  }

  moveTo(cursor) {
    if (cursor === this.cursor) return;
    this.cursor = cursor;
    this.draw();
  }
}

/** Seconds without a sample that count as a gap; thinned-out samples allow more than one sample per second does. */
function gapOf(samples) {
  const apart = samples.slice(1).map((sample, index) => sample.t - samples[index].t).sort((one, other) => one - other);
  return Math.max(4, 1.5 * (apart[Math.floor(apart.length * 0.98)] ?? 0));
}

/** Draw the active composition over time: coloured bands with a mark at every switch. */
class Bands {
  constructor() {
    this.value = h("b");
    this.svg = s("svg", { class: "chart bands", height: BAND_HEIGHT, role: "img" });
    this.element = h("figure", {}, h("figcaption", {}, h("h3", {}, "Composition"), h("span", { class: "keys" }, h("span", { class: "key" }, this.value))), this.svg);
  }

  draw(view) {
    const width = Math.max(200, Math.floor(this.element.clientWidth));
    const x = (t) => PAD.left + ((width - PAD.left - PAD.right) * (t - view.from)) / (view.to - view.from);
    const runs = runsOf(view.samples, view.gap);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${BAND_HEIGHT}`);
    this.svg.setAttribute("width", width);
    const cursor = view.cursor === null ? [] : [s("line", { class: "cursor", x1: x(view.cursor), x2: x(view.cursor), y1: 4, y2: BAND_HEIGHT - 14 })];
    this.svg.replaceChildren(...holes(view, x, BAND_HEIGHT), ...runs.flatMap((run) => this.band(run, x)), ...view.marks.map((mark) => switchMark(mark, x)), ...chosen(view, x, BAND_HEIGHT), ...cursor);
    const at = nearest(view.samples, view.cursor);
    this.value.textContent = at?.composition ?? "–";
    const told = runs.map((run) => `${run.name} from ${format.clock(run.from)}`).join(", ");
    this.svg.setAttribute("aria-label", `Active composition: ${told || "none yet"}. ${view.marks.length} switches.`);
  }

  band(run, x) {
    const [left, right] = [x(run.from), Math.max(x(run.to), x(run.from) + 1)];
    const room = right - left > 8 * run.name.length + 8;
    return [s("rect", { class: `band hue${hueOf(run.name)}`, x: left, y: 14, width: right - left, height: 26 }, s("title", {}, `${run.name}, from ${format.clock(run.from)} to ${format.clock(run.to)}`)), room ? s("text", { class: "band-name", x: (left + right) / 2, y: 31, "text-anchor": "middle" }, run.name) : null].filter(Boolean);
  }
}

function runsOf(samples, gap) {
  const runs = [];
  for (const { t, composition } of samples) {
    const last = runs[runs.length - 1];
    if (last && composition === last.name && t - last.to <= gap) last.to = t;
    else if (composition) {
      if (last && t - last.to <= gap) last.to = t;
      runs.push({ name: composition, from: t, to: t });
    }
  }
  return runs;
}

function switchMark(mark, x) {
  const at = x(mark.t);
  return s("g", { class: "switch-mark" }, s("title", {}, `${mark.from} → ${mark.to} at ${format.clock(mark.t)}`), s("line", { class: "switch", x1: at, x2: at, y1: 8, y2: BAND_HEIGHT - 10 }), s("path", { d: `M${at - 5} 3h10l-5 8z` }));
}
