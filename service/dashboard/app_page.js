// The page of one app: its present state, its past, the reasons, and its controls.

import { h, renew, say } from "./dom.js";
import { clock } from "./format.js";
import { fillGap } from "./samples.js";
import { get, segment } from "./service.js";
import { Act } from "./act.js";
import { Charts } from "./charts.js";
import { Decisions } from "./decisions.js";
import { Figures } from "./figures.js";
import { loading, lostNotice } from "./overview.js";
import { showChips } from "./chips.js";
import { Names } from "./names.js";
import { Notice } from "./notices.js";
import { Pipeline } from "./pipeline.js";
import { WhatIf } from "./what_if.js";
import { Why } from "./why.js";
import { LogView } from "./log_view.js";
import { Slowest } from "./slowest.js";
import { Workers } from "./workers.js";

const CHART_EVERY_MS = 1000;

export class AppPage {
  constructor(app) {
    this.app = app;
    this.heading = h("h1", { "data-app": app }, app);
    this.chips = h("p", { class: "chips" });
    this.description = h("p", { class: "hint" });
    this.run = h("span");
    this.lost = h("div");
    this.astray = h("div", { role: "status" });
    this.notice = new Notice();
    this.names = new Names();
    this.figures = new Figures();
    this.why = new Why(app, this.names);
    this.pipeline = new Pipeline();
    this.charts = new Charts(app);
    this.decisions = new Decisions(app, this.names);
    this.whatIf = new WhatIf(app);
    this.workers = new Workers();
    this.slowest = new Slowest(app);
    this.log = new LogView(app);
    this.act = new Act(app, () => this.learn());
    const head = h("div", { class: "head" }, h("div", { class: "row" }, this.heading, this.chips), this.description, h("p", { class: "hint run" }, this.run, " ", h("a", { href: `#/app/${segment(app)}/runs` }, "Compare runs")), this.jumps());
    const course = h("div", { class: "course" }, this.pipeline.element, this.charts.element, this.decisions.element, this.whatIf.element, this.workers.element, this.slowest.element, this.log.element);
    this.body = h("div", { class: "columns" }, course, this.act.element);
    this.element = h("div", { class: "app" }, head, this.lost, this.astray, this.notice.element, loading(), this.notice.load, this.figures.element, this.why.element, this.body);
    this.element.dataset.waiting = "true";
    this.chartDue = 0;
  }

  /** Links to the parts of the page further down. */
  jumps() {
    const parts = { Pipeline: this.pipeline, Timeline: this.charts, Decisions: this.decisions, "What if": this.whatIf, Workers: this.workers, Log: this.log, Controls: this.act };
    return h("nav", { class: "jumps", "aria-label": "On this page" }, Object.entries(parts).map(([label, part]) => h("button", { type: "button", class: "quiet", onclick: () => goTo(part.element) }, label)));
  }

  show([status]) {
    delete this.element.dataset.waiting;
    showChips(this.chips, status);
    say(this.run, began(status));
    this.notice.show(status);
    this.figures.show(status);
    this.why.show(status);
    this.pipeline.show(status);
    this.workers.show(status);
    this.whatIf.know(status);
    this.act.show(status);
    this.charts.know(status);
    this.decisions.see(status);
    const active = status.composition?.name ?? null;
    if (active !== this.active || this.unknown !== false) {
      this.active = active;
      this.learn();
    }
    const now = performance.now();
    if (now < this.chartDue) return;
    this.chartDue = now + CHART_EVERY_MS;
    this.charts.draw();
  }

  /** Read what the status does not contain: the app's description, options and compositions. */
  async learn() {
    this.unknown = false;
    try {
      const [apps, choices] = await Promise.all([get("apps"), get(`compositions/${segment(this.app)}`)]);
      const info = apps.find((each) => each.name === this.app);
      say(this.description, info.description);
      this.names.learn(choices);
      this.act.know(info, choices);
    } catch {
      this.unknown = true; // the next status tries again
    }
  }

  /** Show the place within the page that its address names. */
  async visit([kind, id], query) {
    this.charts.show(query);
    if (kind !== "decision") return;
    const found = await this.decisions.reveal(Number(id));
    renew(this.astray, found ? "" : id, () => (found ? [] : h("p", { class: "notice warn" }, `Decision ${id} does not exist, or is no longer retained.`)));
  }

  /** Read the samples from before the page was opened, or from a time without connection. */
  async catchUp() {
    await fillGap(this.app);
    this.charts.draw();
  }

  connected(state) {
    this.act.element.inert = this.whatIf.form.element.inert = state === "lost";
    renew(this.lost, state === "lost" ? "lost" : "", () => (state === "lost" ? lostNotice() : []));
  }

  refuse(error) {
    this.element.replaceChildren(h("div", { class: "panel empty" }, h("h1", {}, "Not found"), h("p", {}, error.message), h("p", {}, h("a", { href: "#/" }, "All apps"))));
  }

  close() {
    this.pipeline.close();
    this.charts.close();
    this.log.close();
  }
}

function began({ run, began_at: at }) {
  return run ? `Run ${run}${at ? `, begun at ${clock(at)}` : ""}` : "";
}

function goTo(element) {
  if (element.matches("details")) element.open = true;
  element.scrollIntoView({ block: "start" });
  const heading = element.querySelector("h2");
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}
