// Two runs of an app side by side: their results, and their timelines from the beginning of each run.

import { h, renew, say } from "./dom.js";
import * as format from "./format.js";
import { Chart, PAD } from "./chart.js";
import { swatch } from "./names.js";
import { fromHistory } from "./samples.js";
import { get, segment } from "./service.js";
import { scrollable } from "./decision_views.js";
import { Field } from "./forms.js";
import { lostNotice } from "./overview.js";

const NAMES = ["first", "second"];
const SIDES = ["one", "other"];
const GAP_S = 4;
// Direction that is better: less, more, or neither.
const ROWS = [
  ["SLO met", (run) => run.slo_met_share, format.share, "more"],
  ["Offered", (run) => run.offered_per_s, (value) => `${format.rate(value)}/s`, ""],
  ["Delivered", (run) => run.delivered_per_s, (value) => `${format.rate(value)}/s`, "more"],
  ["Latency, mean", (run) => run.latency_ms.mean, format.time, "less"],
  ["median", (run) => run.latency_ms.p50, format.time, "less"],
  ["p95", (run) => run.latency_ms.p95, format.time, "less"],
  ["p99", (run) => run.latency_ms.p99, format.time, "less"],
  ["Items that failed", (run) => run.items.failed, format.whole, "less"],
  ["Items dropped", (run) => run.items.shed, format.whole, "less"],
  ["Workers, on average", (run) => run.workers, format.number, "less"],
  ["CPU per item", (run) => run.cpu_ms_per_item, format.time, "less"],
  ["Decisions", (run) => run.decisions, format.whole, ""],
  ["Switches", (run) => run.switches, format.whole, ""],
  ["Lasted", (run) => run.length_s, format.span, ""],
];

export class ComparePage {
  constructor(app) {
    this.app = app;
    this.lost = h("div");
    this.told = h("p", { class: "hint", role: "status" }, "Reading telemetry.");
    this.choices = SIDES.map((name, index) => new Field({ name, label: index ? "with" : "Compare", options: [], onchange: () => this.goTo() }));
    this.table = h("div");
    this.charts = [
      new Chart({ title: "Delivered", unit: "items per second", lines: sides((sample) => sample.output), format: (value, exact) => (exact ? `${format.rate(value)}/s` : format.axisRate(value)) }),
      new Chart({ title: "Latency, p95", unit: "milliseconds", lines: sides((sample) => sample.p95), format: (value, exact) => (exact ? format.time(value) : format.axisTime(value)) }),
      new Chart({ title: "Workers", unit: "workers", lines: sides((sample) => sample.workers), format: (value, exact) => (exact ? format.whole(value) : format.axisRate(value)), height: 110 }),
    ];
    this.figures = h("section", { class: "panel", hidden: true, "aria-labelledby": "course-title" }, h("h2", { id: "course-title" }, "Timelines, from the beginning of each run"), h("div", { class: "charts" }, this.charts.map((chart) => chart.element)));
    this.cursor = null;
    this.visits = 0;
    this.figures.addEventListener("pointermove", (event) => this.point(event));
    this.figures.addEventListener("pointerleave", () => this.moveTo(null));
    this.figures.addEventListener("keydown", (event) => this.step(event));
    const head = h("div", { class: "head" }, h("div", { class: "row" }, h("h1", {}, "Runs of ", h("a", { href: `#/app/${segment(app)}` }, app))), this.told);
    this.element = h("div", { class: "app compare" }, head, this.lost, h("section", { class: "panel", "aria-label": "Results of both runs" }, h("div", { class: "sides" }, this.choices.map((each) => each.element)), this.table), this.figures);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.figures);
  }

  show() {}

  catchUp() {}

  connected(state) {
    renew(this.lost, state === "lost" ? "lost" : "", () => (state === "lost" ? lostNotice() : []));
  }

  refuse(error) {
    say(this.told, error.message);
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** The runs that the address names, else the two latest. */
  async visit(_, query) {
    const asked = SIDES.map((side) => query.get(side)).filter(Boolean);
    const visit = ++this.visits;
    try {
      const known = await get(`runs/${segment(this.app)}`);
      const options = known.map((run) => [run.run, `${format.day(run.began_at)} · ${run.run}`]);
      const runs = known.length < 2 && asked.length === 0 ? [] : await get(`comparison/${segment(this.app)}?${new URLSearchParams(asked.map((run) => ["run", run]))}`);
      if (visit !== this.visits) return; // the address names other runs by now
      this.runs = runs;
      this.choices.forEach((choice, index) => choice.choose(options, this.runs[index]?.run));
      say(this.told, this.runs.length < 2 ? "Two runs are needed to compare. A run appears some ten seconds after its start, if telemetry is written." : this.sentence());
      renew(this.table, this.runs.map((run) => `${run.run} ${run.ended_at}`).join(), () => (this.runs.length < 2 ? [] : this.beside()));
      this.draw();
    } catch (error) {
      say(this.told, error.message);
    }
  }

  goTo() {
    location.hash = `#/app/${segment(this.app)}/runs?${new URLSearchParams(this.choices.map((each) => [each.name, each.value]))}`;
  }

  /** The main differences in words. */
  sentence() {
    const [one, other] = this.runs;
    const [before, after] = [one.latency_ms.p95, other.latency_ms.p95];
    const latency = format.known(before) && format.known(after) ? `p95 ${format.time(before)} then ${format.time(after)}` : null;
    const share = format.known(one.slo_met_share) && format.known(other.slo_met_share) ? `SLO met ${format.share(one.slo_met_share)} then ${format.share(other.slo_met_share)} of the time` : null;
    const workers = `${format.number(one.workers)} then ${format.number(other.workers)} workers`;
    return `${[share, latency, workers].filter(Boolean).join(", ")}.`;
  }

  beside() {
    const heads = ["", ...this.runs.map((run, index) => `${NAMES[index]}: ${format.day(run.began_at)}`), "Difference"];
    const rows = ROWS.map(([label, of, told, better]) => {
      const [before, after] = this.runs.map(of);
      return h("tr", {}, h("th", { scope: "row" }, label), [before, after].map((value) => h("td", { class: "number" }, told(value))), difference(before, after, better, told));
    });
    const words = [["Objective", (run) => format.objective(run.slo)], ["Compositions", used]].map(([label, of]) => h("tr", {}, h("th", { scope: "row" }, label), this.runs.map((run) => h("td", {}, of(run))), h("td", {})));
    const part = this.runs.every((run) => run.items.all_of_them) ? null : h("p", { class: "hint" }, "Of a long run, only part of the items was read: latency, failed and dropped items refer to that part.");
    return [scrollable("Figures of both runs", h("table", { class: "beside" }, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, words[0], rows, words[1]))), part];
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.figures.hidden = !(this.runs?.length >= 2);
    if (this.figures.hidden) return;
    this.frame = requestAnimationFrame(() => {
      const samples = this.runs.slice(0, 2).flatMap((run, index) => {
        const course = run.course.map(fromHistory);
        return course.map((sample) => ({ t: sample.t - course[0].t, [SIDES[index]]: sample }));
      });
      samples.sort((left, right) => left.t - right.t);
      const to = Math.max(LEAST_S, samples.at(-1)?.t ?? 0);
      const view = { samples, from: 0, to, marks: [], holes: [], cursor: this.cursor, gap: this.gap(), clock: format.elapsed, apart: true };
      this.to = to;
      for (const chart of this.charts) chart.draw(view);
    });
  }

  point(event) {
    const box = this.charts[0].svg.getBoundingClientRect();
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    this.moveTo(share < 0 || share > 1 ? null : share * this.to);
  }

  step(event) {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.moveTo(null);
    if (!direction) return;
    event.preventDefault();
    this.moveTo(Math.min(this.to, Math.max(0, (this.cursor ?? this.to) + (direction * this.to) / 60)));
  }

  moveTo(cursor) {
    this.cursor = cursor;
    this.draw();
  }

  /** Seconds without a sample that count as a gap; more for a long run, whose samples are thinned out. */
  gap() {
    return Math.max(GAP_S, ...this.runs.map((run) => (3 * run.length_s) / Math.max(1, run.course.length / 10)));
  }
}

const LEAST_S = 10;

/** A line for each run, over the samples of that run only. */
function sides(of) {
  return [{ key: "input", label: NAMES[0] }, { key: "output", label: NAMES[1] }].map((line, index) => ({ ...line, of: (sample) => sample[SIDES[index]] && of(sample[SIDES[index]]) }));
}

function used({ compositions }) {
  return compositions.flatMap(({ name, share }, index) => [index ? ", " : null, swatch(name), `${name} ${format.percent(share)}`]);
}

/** The change in per cent of the first value; for shares, and if the first is 0, the difference. */
function difference(before, after, better, told) {
  if (!format.known(before) || !format.known(after) || before === after) return h("td", { class: "number" }, before === after && format.known(before) ? "same" : "–");
  const good = better && (after < before) === (better === "less");
  const ratio = told === format.share || before === 0 ? told(Math.abs(after - before)) : `${format.number(Math.abs(after / before - 1) * 100, 0)} %`;
  return h("td", { class: "number", "data-better": better ? String(good) : null }, `${after > before ? "+" : "−"}${ratio}`, better && h("span", { class: "unseen" }, good ? ", better" : ", worse"));
}
