// The service's log about an app and the prints of its stages, read while the user has unfolded it.

import { h } from "./dom.js";
import * as format from "./format.js";
import { get, segment } from "./service.js";

const EVERY_MS = 2000;
const KEPT = 300;

export class LogView {
  constructor(app) {
    Object.assign(this, { app, last: 0, timer: null, reading: false });
    this.lines = h("ol", { class: "log", tabindex: "0", "aria-label": "Log" });
    this.told = h("p", { class: "hint" }, "Nothing was logged yet.");
    this.element = h("details", { id: "fold-log", class: "panel fold", ontoggle: () => this.toggle() }, h("summary", {}, h("h2", { id: "log-title" }, "Log")), this.told, this.lines);
  }

  toggle() {
    clearTimeout(this.timer);
    if (this.element.open && !this.reading) this.read();
  }

  async read() {
    this.reading = true;
    const found = document.hidden ? null : await get(`logs?app=${segment(this.app)}&after=${this.last}&limit=${KEPT}`).catch(() => null);
    if (found?.length) this.add(found);
    else if (found && this.last) await this.beginsAnew();
    this.reading = false;
    if (this.element.open) this.timer = setTimeout(() => this.read(), EVERY_MS);
  }

  /** Notice that a restarted service counts its lines from 1 again. */
  async beginsAnew() {
    const [newest] = await get(`logs?app=${segment(this.app)}&limit=1`).catch(() => []);
    if (newest === undefined || newest.id < this.last) this.last = 0;
  }

  add(found) {
    const low = this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight < 20;
    this.lines.append(...found.map(drawn));
    while (this.lines.children.length > KEPT) this.lines.firstChild.remove();
    this.last = found.at(-1).id;
    this.told.hidden = true;
    if (low) this.lines.scrollTop = this.lines.scrollHeight;
  }

  close() {
    clearTimeout(this.timer);
    this.element.open = false;
  }
}

function drawn({ at, level, event, about }) {
  const printed = about.line !== undefined && about.line !== null;
  const text = printed ? `(${about.by}) ${about.line}` : [event, ...Object.entries(about).filter(([name]) => name !== "app").map(([name, value]) => `${name}=${value}`)].join(" ");
  return h("li", { "data-level": level }, h("time", { datetime: at }, format.clock(at)), " ", text);
}
