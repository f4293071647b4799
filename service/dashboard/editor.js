// The compositions of an app, and an editor for more compositions, which marks the line of every fault.

import { h, renew } from "./dom.js";
import { Refusal, call, segment } from "./service.js";
import { Form } from "./forms.js";

export class Editor {
  constructor(app, changed) {
    this.app = app;
    this.changed = changed;
    this.list = h("ul", { class: "choices" });
    this.numbers = h("pre", { class: "numbers", "aria-hidden": "true" });
    this.text = h("textarea", { id: "yaml", rows: 9, spellcheck: "false", wrap: "off", "aria-describedby": "yaml-faults", oninput: () => this.mark([]), onscroll: () => this.scroll() });
    this.faults = h("ul", { class: "faults", id: "yaml-faults" });
    this.form = new Form({ fields: [], submit: "Add", send: () => this.add() });
    this.form.element.prepend(h("label", { for: "yaml" }, "Add or replace (YAML)"), h("div", { class: "editor" }, this.numbers, this.text), this.faults);
    this.removed = h("p", { class: "result", role: "status" });
    this.element = h("div", {}, this.list, this.removed, this.form.element);
  }

  know(info, choices) {
    if (this.text.value === "") {
      const merged = info.stages.map((stage) => stage.name);
      const notation = merged.length > 1 ? `Seq(${merged[0]},${merged[1]})${"-Par".repeat(merged.length - 2)}` : "Par";
      this.text.value = `app: ${this.app}\ncompositions:\n  - name: mine\n    notation: ${notation}\n`;
      this.mark([]);
    }
    renew(this.list, JSON.stringify(choices.map((each) => [each.name, each.notation, each.active])), () => choices.map((each) => this.row(each)));
  }

  row(choice) {
    const remove = h("button", { type: "button", class: "quiet", "aria-label": `Remove composition ${choice.name}`, disabled: choice.active, onclick: () => this.remove(choice.name) }, "remove");
    return h("li", {}, h("b", {}, choice.name), h("span", { class: "notation" }, choice.notation), choice.active ? h("span", { class: "chip" }, "active") : remove);
  }

  async remove(name) {
    try {
      await call("DELETE", `compositions/${segment(this.app)}/${segment(name)}`);
      this.removed.textContent = `Composition ${name} was removed.`;
      this.removed.dataset.kind = "good";
      this.changed();
    } catch (error) {
      this.removed.textContent = error.message;
      this.removed.dataset.kind = "bad";
    }
  }

  async add() {
    this.mark([]);
    try {
      await call("POST", "compositions", this.text.value, "application/yaml");
    } catch (error) {
      if (error instanceof Refusal) this.mark(error.errors ?? []);
      if (!error.errors?.length) throw error;
      throw new Refusal(error.status, `Refused: ${error.errors.length} ${error.errors.length === 1 ? "fault" : "faults"}.`);
    }
    this.changed();
    return "Added. The manager can choose them from now on.";
  }

  /** Show the faults, and the lines that contain them. */
  mark(faults) {
    const bad = new Set(faults.map((fault) => fault.line).filter(Boolean));
    const count = this.text.value.split("\n").length;
    const lines = Array.from({ length: count }, (_, index) => h("span", { class: bad.has(index + 1) ? "bad" : "" }, `${bad.has(index + 1) ? "● " : ""}${index + 1}\n`));
    this.numbers.replaceChildren(...lines);
    this.faults.replaceChildren(...faults.map((fault) => this.fault(fault)));
    if (faults.length > 0) this.text.setAttribute("aria-invalid", "true");
    else this.text.removeAttribute("aria-invalid");
    this.scroll();
  }

  fault({ line, loc, msg }) {
    const path = loc.slice(1).join(".");
    const where = line ? h("button", { type: "button", class: "quiet", onclick: () => this.goTo(line) }, `Line ${line}`) : null;
    return h("li", { "data-line": line }, where, " ", path && h("code", {}, path), ` ${msg}`);
  }

  goTo(line) {
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(start, start + lines[line - 1].length);
  }

  scroll() {
    this.numbers.scrollTop = this.text.scrollTop;
  }
}
