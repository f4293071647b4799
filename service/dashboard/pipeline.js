// The running pipeline: groups as boxes, merged stages inside one box, replicas stacked, waiting items on the arrows.

import { h, renew, s } from "./dom.js";
import * as format from "./format.js";
import { SIZE, behind, layout } from "./layout.js";
import { swatch } from "./names.js";

const DOTS = 8;
const LANE = { gap: 14, height: 30 };

/** The part of a status that the picture shows. */
export function pictureOf(status) {
  const stages = new Map(status.stages.map((stage) => [stage.name, stage]));
  const composition = status.composition ?? asWritten(status);
  const dyn = composition.dyn ?? null;
  const bound = status.workers.filter((worker) => worker.group !== null);
  const groups = composition.groups.map((group, index) => {
    const workers = status.workers.filter((worker) => worker.group === index);
    const inside = group.stages.reduce((sum, name) => sum + (status.in_flight_by_stage?.[name] ?? 0), 0);
    const busy = workers.filter((worker) => worker.outstanding > 0).length;
    const waiting = index === 0 ? status.queued : Math.max(0, inside - workers.reduce((sum, worker) => sum + worker.outstanding, 0));
    return { ...group, workers: workers.length, busy, waiting, pressed: dyn ? pressed(waiting, bound.length, dyn.workers) : pressed(waiting, busy, workers.length), replicas: dyn ? 1 : group.replicas, dyn: dyn !== null, stages: group.stages.map((name) => stageOf(stages.get(name), name)) };
  });
  const between = dyn ? Math.max(0, dyn.workers - bound.length) : 0;
  const spare = Math.max(0, status.workers.length - bound.length - between);
  const still = status.composition === null;
  return { groups, dyn, between, spare, still, queued: status.queued, input: format.rate(status.offered_per_s ?? status.input_rate_per_s), output: format.rate(status.throughput_per_s), state: status.state };
}

/** Pressure on a group: 0 none, 1 items wait and all its workers are busy, 2 many items wait. */
function pressed(waiting, busy, workers) {
  if (waiting === 0 || busy < workers) return 0;
  return waiting > 4 * Math.max(1, workers) ? 2 : 1;
}

function asWritten(status) {
  return { groups: status.stages.map((stage) => ({ stages: [stage.name], pattern: "seq", replicas: 1 })) };
}

function stageOf(stage, name) {
  return { name, time: format.time(stage?.service_time_ms), kind: stage?.kind, bottleneck: Boolean(stage?.bottleneck) };
}

export class Pipeline {
  constructor() {
    this.drawing = h("div", { class: "drawing" });
    this.note = h("p", { class: "hint" });
    this.runs = h("span");
    this.element = h("section", { class: "panel pipeline", "aria-labelledby": "pipeline-title" }, h("div", { class: "row" }, h("h2", { id: "pipeline-title" }, "Pipeline"), this.runs), this.drawing, this.note);
    this.width = 0;
    this.resized = new ResizeObserver(([{ contentRect }]) => {
      this.width = contentRect.width; // reading the width from the element would cost a layout at every status
      if (this.status) this.show(this.status);
    });
    this.resized.observe(this.drawing);
  }

  close() {
    this.resized.disconnect();
  }

  show(status) {
    this.status = status;
    const width = Math.max(220, Math.floor(this.width));
    const picture = pictureOf(status);
    this.drawing.dataset.switching = String(status.state === "switching" || status.state === "trial");
    renew(this.drawing, JSON.stringify([picture, width]), () => draw(picture, width));
    const { name, notation } = status.composition ?? {};
    renew(this.runs, JSON.stringify([name, notation]), () => (name ? [swatch(name), h("b", {}, name), h("span", { class: "notation" }, notation)] : []));
    renew(this.note, JSON.stringify([picture.dyn, picture.spare, status.batching, status.last_switch, status.drain, status.switches]), () => noteOf(picture, status));
  }
}

function noteOf(picture, status) {
  const parts = [];
  if (picture.dyn && settingsOf(picture.dyn)) parts.push(`Scheduler ${picture.dyn.scheduler} with ${settingsOf(picture.dyn)}. `);
  if (picture.spare > 0) parts.push(`${picture.spare} warm spare ${picture.spare === 1 ? "worker" : "workers"}. `);
  if (status.batching?.size > 1) parts.push(`Up to ${format.whole(status.batching.size)} items per bundle: ${status.batching.reason}. `);
  const last = status.last_switch;
  if (last?.at) {
    const drain = last.transition === "resize" ? "in place" : `drain expected within ${format.time(last.drain_estimate_ms)}, took ${format.time(last.drain_actual_ms)}`;
    const how = last.error ? `failed: ${last.error}` : `gap ${format.time(last.gap_ms)}, ${drain}`;
    const resizes = status.resizes ? `, ${status.resizes} in place` : "";
    parts.push(`Last ${last.transition ?? "switch"} (of ${format.whole(status.switches)} ${status.switches === 1 ? "switch" : "switches"}${resizes}): ${last.from} → ${last.to} at ${format.clock(last.at)}, ${how}. `);
  }
  if (!picture.still && status.drain.estimate_ms !== null) parts.push(`A drain now would end within ${format.time(status.drain.estimate_ms)}.`);
  return parts;
}

/** The picture in words, for users who do not see it. */
function inWords(picture) {
  const groups = picture.groups.map((group) => {
    const stages = group.stages.map((stage) => `${stage.name} ${stage.time}${stage.bottleneck ? ", the bottleneck" : ""}`).join(" merged with ");
    const who = group.dyn ? `${group.workers} workers at it` : `${group.pattern === "par" ? "parallel" : "sequential"} with ${group.replicas} ${group.replicas === 1 ? "worker" : "workers"}`;
    return `${stages}, ${who}, ${group.waiting} waiting${group.pressed ? ", it holds items back" : ""}`;
  });
  const roaming = picture.dyn ? ` ${roamers(picture)}; ${settingsOf(picture.dyn)}.` : "";
  return `Pipeline. Input ${picture.input} items per second, ${picture.queued} waiting; ${groups.join("; then ")}; output ${picture.output} items per second.${roaming}`;
}

/** For a dynamic composition: the workers that are not at a stage, in words. */
function roamers({ dyn, between }) {
  return `${dyn.workers} workers go from stage to stage as scheduler ${dyn.scheduler} says, ${between} between stages`;
}

/** The settings of the scheduler in words. */
function settingsOf({ settings }) {
  return Object.entries(settings ?? {}).map(([name, value]) => `${name} ${value}`).join(", ");
}

/** The workers that look for work, in a lane under the stages. */
function drawLane(picture, plan) {
  const [x, y, width] = [SIZE.margin, plan.height + LANE.gap, plan.width - 2 * SIZE.margin];
  const dots = Array.from({ length: Math.min(DOTS, picture.between) }, (_, index) => s("circle", { class: "worker", cx: x + 16 + index * 12, cy: y + LANE.height / 2, r: 4 }));
  const words = s("text", { class: "busy", x: x + 22 + dots.length * 12, y: y + LANE.height / 2 + 4 }, width < 460 ? `${picture.between} of ${picture.dyn.workers} between stages (${picture.dyn.scheduler})` : roamers(picture));
  return s("g", { class: "lane" }, s("title", {}, settingsOf(picture.dyn)), s("rect", { x, y, width, height: LANE.height, rx: 10 }), dots, words);
}

function draw(picture, width) {
  const plan = layout(picture.groups, width);
  const lane = picture.dyn && !picture.still ? drawLane(picture, plan) : null;
  if (lane) plan.height += LANE.gap + LANE.height + SIZE.margin;
  const size = { viewBox: `0 0 ${plan.width} ${plan.height}`, width: plan.width, height: plan.height };
  const groups = [...picture.groups, null];
  const marker = s("marker", { id: "head", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8z" }));
  const label = inWords(picture);
  const flow = plan.arrows.map((arrow, index) => drawArrow(arrow, picture.still ? null : groups[index], index === 0));
  return s("svg", { ...size, role: "img", "aria-label": label, class: picture.still ? "still" : "" }, s("defs", {}, marker), flow, plan.boxes.map((box) => drawBox(box, picture)), lane);
}

/** An arrow. `group`: the group to which it leads, if any. */
function drawArrow(arrow, group, first) {
  const level = group ? ["", " pressed", " pressed much"][group.pressed] : "";
  const path = s("path", { class: `arrow${level}`, d: arrow.path, "marker-end": "url(#head)" });
  if (group === null) return path;
  const { waiting } = group;
  const text = waiting > 9999 ? `${Math.round(waiting / 1000)}k` : String(waiting);
  const half = 9 + 3.5 * text.length;
  const title = s("title", {}, first ? `${waiting} items wait for admission` : `${waiting} items wait for this group`);
  return [path, s("g", { class: `depth${waiting > 0 ? " some" : ""}${level}` }, title, s("rect", { x: arrow.x - half, y: arrow.y - 10, width: 2 * half, height: 20, rx: 10 }), middle(arrow.x, arrow.y + 4, text))];
}

function middle(x, y, text, attributes = {}) {
  return s("text", { x, y, "text-anchor": "middle", ...attributes }, text);
}

function drawBox(box, picture) {
  if (box.kind !== "group") return drawEnd(box, picture);
  const { x, y, width, height } = box;
  const group = picture.groups[box.index];
  const copies = Array.from({ length: behind(group.replicas) }, (_, index) => behind(group.replicas) - index);
  const level = ["", " pressed", " pressed much"][group.pressed];
  const outline = (offset) => s("rect", { class: offset ? "copy" : `group${level}`, x: x + offset * SIZE.stack, y: y - offset * SIZE.stack, width, height, rx: 10 });
  const name = group.dyn ? "Dyn" : group.pattern === "par" ? `Par × ${group.replicas}` : "Seq";
  return s("g", {}, copies.map(outline), outline(0), s("text", { class: "pattern", x: x + SIZE.padding, y: y + 17 }, name), group.stages.length > 1 && s("text", { class: "merged", x: x + width - SIZE.padding, y: y + 17, "text-anchor": "end" }, "merged"), group.stages.map((stage, index) => drawStage(stage, place(box, index))), picture.still ? null : drawWorkers(group, box));
}

function place(box, index) {
  const column = index % box.columns;
  const row = Math.floor(index / box.columns);
  return [box.x + SIZE.padding + column * (SIZE.stage.width + SIZE.gap), box.y + SIZE.head + row * (SIZE.stage.height + SIZE.gap)];
}

function drawStage(stage, [x, y]) {
  const { width, height } = SIZE.stage;
  const name = stage.name.length > 14 ? `${stage.name.slice(0, 13)}…` : stage.name;
  return s("g", { class: stage.bottleneck ? "stage bottleneck" : "stage" }, s("title", {}, `${stage.name}, ${stage.kind}`), s("rect", { x, y, width, height, rx: 7 }), middle(x + width / 2, y + (stage.bottleneck ? 20 : 27), name, { class: "name" }), middle(x + width / 2, y + (stage.bottleneck ? 38 : 47), stage.time, { class: "time" }), stage.bottleneck && middle(x + width / 2, y + 56, "▲ bottleneck", { class: "mark" }));
}

function drawWorkers(group, box) {
  const y = box.y + box.height - 13;
  const count = Math.min(DOTS, group.workers);
  const dots = Array.from({ length: count }, (_, index) => s("circle", { class: index < group.busy ? "worker busy" : "worker", cx: box.x + SIZE.padding + 5 + index * 12, cy: y, r: 4 }));
  const text = group.dyn ? `${group.workers} at it` : `${group.busy} of ${group.workers} busy`;
  return [s("g", {}, s("title", {}, text), dots), s("text", { class: "busy", x: box.x + box.width - SIZE.padding, y: y + 4, "text-anchor": "end" }, text)];
}

function drawEnd(box, picture) {
  const [label, value] = box.kind === "source" ? ["in", picture.input] : ["out", picture.output];
  const x = box.x + box.width / 2;
  return s("g", { class: "end" }, s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 26 }), middle(x, box.y + 22, `${value}/s`, { class: "time" }), middle(x, box.y + 38, label, { class: "label" }));
}
