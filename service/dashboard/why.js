// Why it runs as it does, in two lines: the last change, and why nothing has changed since.

import { h, renew } from "./dom.js";
import * as format from "./format.js";
import { get, segment } from "./service.js";

export class Why {
  constructor(app, names) {
    Object.assign(this, { app, names, change: null, key: null });
    this.element = h("p", { class: "why", "aria-label": "Why it runs as it does" });
  }

  show(status) {
    const last = status.last_decision;
    if (last && last.from !== last.to) this.change = last;
    else if (last && last.id !== this.key) this.look(last.id);
    const quiet = status.state === "stopped" || status.state === "failed" ? null : status.no_change;
    const told = this.change ?? last;
    const first = told || !status.composition ? null : { name: status.composition.name, at: status.began_at };
    renew(this.element, JSON.stringify([told, quiet, first, this.names.notations.size]), () => [told ? this.line(told) : first ? this.begun(first) : null, quiet ? h("span", { class: "since" }, `${told ? "Since then no change" : "No change"}: ${quiet}`) : null]);
  }

  /** The last decision changed nothing: an earlier one did. */
  async look(id) {
    this.key = id;
    try {
      const found = await get(`decisions/${segment(this.app)}?kind=decision&limit=60`);
      this.change = found.find((each) => each.from !== each.to) ?? null;
    } catch {
      this.key = null; // the next status asks again
    }
  }

  /** Nothing was decided yet. */
  begun({ name, at }) {
    return h("span", { class: "change" }, at ? `${format.clock(at)} · ` : "", this.names.told(name), " · as it was started");
  }

  line(decision) {
    const moved = decision.from === decision.to ? [this.names.told(decision.to)] : [h("b", {}, decision.from), " → ", this.names.told(decision.to)];
    const link = h("a", { href: `#/app/${segment(this.app)}/decision/${decision.id}` }, format.clock(decision.at));
    return h("span", { class: "change" }, link, " · ", moved, " · ", h("span", { class: "reason" }, decision.reason));
  }
}
