// The reasons for the present state, in two lines: the last change, and why nothing has changed since.

import { h, renew } from "./dom.js";
import * as format from "./format.js";
import { get, segment } from "./service.js";

const ODD_MS = 2000; // a decision may be reported a moment after its switch

export class Why {
  constructor(app, names) {
    Object.assign(this, { app, names, change: null, key: null, odd: null });
    this.element = h("p", { class: "why", "aria-label": "Why it runs as it does" });
  }

  show(status) {
    const last = status.last_decision;
    if (last && last.from !== last.to) this.change = last;
    else if (last && last.id !== this.key) this.look(last.id);
    const quiet = status.state === "stopped" || status.state === "failed" ? null : status.no_change;
    const told = this.change ?? last;
    const first = told || !status.composition ? null : { name: status.composition.name, at: status.began_at };
    const other = told && this.astray(status, told) ? status.composition.name : null;
    renew(this.element, JSON.stringify([told, quiet, first, other, this.names.notations.size]), () => [other ? h("span", { class: "change" }, "Runs ", this.names.told(other), ", not as decided last:") : null, told ? this.line(told) : first ? this.begun(first) : null, quiet ? h("span", { class: "since" }, `${told ? "Since then no change" : "No change"}: ${quiet}`) : null]);
  }

  /** Whether another composition than the last decided one has been running for some time: after mere advice, or a failed switch. */
  astray({ composition, state }, { to }) {
    if (composition === null || composition.name === to || ["switching", "trial"].includes(state)) this.odd = null;
    else this.odd ??= performance.now();
    return this.odd !== null && performance.now() - this.odd > ODD_MS;
  }

  /** Look for an earlier decision with a change, as the last one changed nothing. */
  async look(id) {
    this.key = id;
    try {
      const found = await get(`decisions/${segment(this.app)}?kind=decision&limit=60`);
      this.change = found.find((each) => each.from !== each.to) ?? null;
    } catch {
      this.key = null; // the next status tries again
    }
  }

  /** The line before the first decision. */
  begun({ name, at }) {
    return h("span", { class: "change" }, at ? `${format.clock(at)} · ` : "", this.names.told(name), " · as it was started");
  }

  line(decision) {
    const moved = decision.from === decision.to ? [this.names.told(decision.to)] : [h("b", {}, decision.from), " → ", this.names.told(decision.to)];
    const link = h("a", { href: `#/app/${segment(this.app)}/decision/${decision.id}` }, format.clock(decision.at));
    return h("span", { class: "change" }, link, " · ", moved, " · ", h("span", { class: "reason" }, decision.reason));
  }
}
