// A chart over time in SVG: lines, the zone in which the objective is met, gaps without measurements, and a cursor.

import { h, s, say, shown } from "./dom.js";
import { clock } from "./format.js";

const PAD = { left: 52, right: 10, top: 8, bottom: 22 };

/** A round number at or above `value`, and steps up to it. */
export function scale(value) {
  if (!(value > 0)) return { step: 1, top: 1 }; // all values are zero
  const raw = value / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= raw * 0.999) * power;
  return { step, top: step * Math.ceil((value / step) * 0.999) || step };
}

export class Chart {
  /** `lines`: {key, label, of(sample)}; a line with `off` is drawn only if the user selects it in the legend. `limits(sample)`: bounds of the SLO. `fine`: side of the first bound on which the SLO is met, "below" or "above". */
  constructor({ title, unit, lines, limits = null, fine = "below", format, height = 170 }) {
    Object.assign(this, { title, unit, limits, fine, format, height, lines, log: false });
    this.values = lines.map(() => h("b"));
    this.off = new Set(lines.filter((line) => line.off));
    this.labels = lines.map((line, index) => this.key(line, [h("i"), line.label, " ", this.values[index]]));
    this.bound = h("span", { class: "key limit", hidden: true }, h("i"), "bound ", h("b"));
    this.svg = s("svg", { class: "chart", height, role: "img", tabindex: "0" });
    this.element = h("figure", {}, h("figcaption", {}, h("h3", {}, title), h("span", { class: "keys" }, this.labels, limits ? this.bound : null)), this.svg);
  }

  /** An entry of the legend; if there are many lines, a button that hides and shows its line. */
  key(line, inside) {
    if (this.lines.length <= 2) return h("span", { class: `key ${line.key}` }, inside);
    return h("button", { type: "button", class: `key ${line.key}`, "aria-pressed": String(!this.off.has(line)), onclick: () => this.turn(line, this.off.has(line)) }, inside);
  }

  turn(line, on) {
    this.off[on ? "delete" : "add"](line);
    this.labels[this.lines.indexOf(line)].setAttribute("aria-pressed", String(on));
    if (this.view) this.draw(this.view);
  }

  get drawn() {
    return this.lines.filter((line) => !this.off.has(line));
  }

  /** View: {samples, from, to, marks, cursor}, times in seconds; `apart`: each line has samples of its own. */
  draw(view) {
    const width = Math.max(200, Math.floor(this.element.clientWidth));
    const { samples } = view;
    Object.assign(this, { view, gap: view.gap });
    const { steps, top, y } = this.scaled(samples);
    const x = (t) => PAD.left + ((width - PAD.left - PAD.right) * (t - view.from)) / (view.to - view.from);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.setAttribute("width", width);
    this.svg.replaceChildren(...this.grid(width, steps, y), ...timeAxis(view, x, this.height), ...holes(view, x, this.height), ...this.zone(samples, x, y, top), ...marks(view, x, this.height), ...this.paths(samples, x, y), ...chosen(view, x, this.height), ...this.cursorAt(view, x));
    this.tell(view);
  }

  /** The values that have a line, the highest value, and the function from a value to its position. */
  scaled(samples) {
    let [high, low] = [0, Infinity];
    for (const sample of samples)
      for (const of of this.reach()) {
        const value = of(sample) ?? 0;
        high = Math.max(high, value);
        if (value > 0) low = Math.min(low, value);
      }
    const room = this.height - PAD.top - PAD.bottom;
    const at = (share) => this.height - PAD.bottom - room * share;
    if (this.log && high > 0) {
      const [from, to] = [Math.floor(Math.log10(low)), Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)];
      const steps = Array.from({ length: to - from + 1 }, (_, index) => 10 ** (from + index));
      return { steps, top: 10 ** to, y: (value) => at(Math.max(0, (Math.log10(Math.max(value, 10 ** from)) - from) / (to - from))) };
    }
    const { step, top } = scale(high * 1.05);
    return { steps: Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step), top, y: (value) => at(value / top) };
  }

  reach() {
    return [...this.drawn.map((line) => line.of), ...(this.limits ? [(sample) => Math.max(0, ...this.limits(sample))] : [])];
  }

  grid(width, steps, y) {
    return steps.flatMap((value) => [s("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y(value), y2: y(value) }), s("text", { x: PAD.left - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value))]);
  }

  zone(samples, x, y, top) {
    if (!this.limits) return [];
    const edge = this.fine === "below" ? y(0) : y(top);
    const count = Math.max(0, ...samples.map((sample) => this.limits(sample).length));
    return Array.from({ length: count }, (_, index) => pieces(samples, (sample) => this.limits(sample)[index] ?? null, this.gap)).flatMap((runs, index) =>
      runs.flatMap((run) => {
        const line = run.map(([t, value]) => `${x(t).toFixed(1)} ${y(value).toFixed(1)}`);
        const area = `M${x(run[0][0]).toFixed(1)} ${edge}L${line.join("L")}L${x(run[run.length - 1][0]).toFixed(1)} ${edge}Z`;
        return [index === 0 && s("path", { class: "zone", d: area }), s("path", { class: "limit", d: `M${line.join("L")}` })].filter(Boolean);
      }),
    );
  }

  paths(samples, x, y) {
    return this.drawn.map((line) => {
      const d = pieces(samples, line.of, this.gap).map((run) => `M${run.map(([t, value]) => `${x(t).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}`).join("");
      return s("path", { class: `line ${line.key}`, d });
    });
  }

  cursorAt(view, x) {
    if (view.cursor === null) return [];
    const at = x(view.cursor);
    const end = at > x(view.to) - 60;
    return [s("line", { class: "cursor", x1: at, x2: at, y1: PAD.top, y2: this.height - PAD.bottom }), s("text", { class: "moment", x: at + (end ? -4 : 4), y: PAD.top + 9, "text-anchor": end ? "end" : "start" }, (view.clock ?? clock)(view.cursor))];
  }

  /** Show the values at the cursor, or the latest ones, in the legend and in words. */
  tell(view) {
    const at = nearest(view.samples, view.cursor);
    const texts = this.lines.map((line) => {
      const mine = view.apart ? nearest(view.samples.filter((sample) => line.of(sample) !== undefined), view.cursor) : at;
      return mine ? this.format(line.of(mine), true) : "–";
    });
    this.values.forEach((value, index) => say(value, texts[index]));
    const bounds = (this.limits && at ? this.limits(at) : []).filter((bound) => bound !== null && bound !== undefined);
    this.bound.hidden = bounds.length === 0;
    say(this.bound.lastElementChild, bounds.map((bound) => this.format(bound, true)).join(", "));
    this.lines.forEach((line, index) => shown(this.labels[index], !line.rare || view.samples.some((sample) => line.of(sample) !== null)));
    const words = this.drawn.map((line) => `${line.label} ${texts[this.lines.indexOf(line)]}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.title}, ${this.unit}${at ? `, at ${(view.clock ?? clock)(at.t)}: ${words}` : ": nothing measured yet"}`);
  }
}

export function nearest(samples, cursor) {
  if (samples.length === 0) return null;
  if (cursor === null) return samples[samples.length - 1];
  return samples.reduce((best, sample) => (Math.abs(sample.t - cursor) < Math.abs(best.t - cursor) ? sample : best));
}

/** Series of [time, value] without a gap. A null value was not measured; an undefined one does not belong to this line. */
function pieces(samples, of, gap) {
  const runs = [];
  let last = null;
  for (const sample of samples) {
    const value = of(sample);
    if (value === null) last = null;
    else if (value !== undefined) {
      if (last === null || sample.t - last > gap) runs.push([]);
      runs[runs.length - 1].push([sample.t, value]);
      last = sample.t;
    }
  }
  return runs;
}

function timeAxis(view, x, height) {
  const length = view.to - view.from;
  const wanted = Math.max(2, Math.min(6, Math.floor((x(view.to) - x(view.from)) / 90)));
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 21600].find((each) => length / each <= wanted) ?? 43200;
  const ticks = [];
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) ticks.push(t);
  const edge = x(view.to) + PAD.right;
  return ticks.map((t) => s("text", { x: Math.min(x(t), edge - (step < 60 ? 25 : 16)), y: height - 5, "text-anchor": "middle" }, (view.clock ?? clock)(t, step < 60)));
}

/** Draw the periods without measurements. */
export function holes(view, x, height) {
  return view.holes.map((hole) => s("rect", { class: "hole", x: x(hole.from), width: x(hole.to) - x(hole.from), y: PAD.top, height: height - PAD.top - PAD.bottom }, s("title", {}, hole.told)));
}

/** Draw the range that the user is selecting with the pointer. */
export function chosen({ drag }, x, height) {
  if (!drag) return [];
  const [left, right] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)].map(x);
  return [s("rect", { class: "chosen", x: left, width: right - left, y: PAD.top, height: height - PAD.top - PAD.bottom })];
}

function marks(view, x, height) {
  return view.marks.map((mark) => s("line", { class: "switch", x1: x(mark.t), x2: x(mark.t), y1: PAD.top, y2: height - PAD.bottom }));
}

export { PAD };
