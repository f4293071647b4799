// Forms that show the service's sentences about faults, each at its field.

import { h } from "./dom.js";
import { Refusal, sentence } from "./service.js";

let count = 0;

/** A labelled control. With `options` ([value, text] pairs) it is a list; `unit` is shown after it. */
export class Field {
  constructor({ name, label, unit = null, options = null, value = "", hint = null, type = "text", ...rest }) {
    const id = `field-${++count}-${name}`;
    this.name = name;
    this.fault = h("p", { class: "error", id: `${id}-fault`, hidden: true });
    this.control = options ? h("select", { id, name, ...rest }) : h("input", { id, name, type, value, autocomplete: "off", spellcheck: "false", ...rest });
    if (options) this.choose(options, value);
    const note = hint && h("p", { class: "hint", id: `${id}-hint` }, hint);
    this.control.setAttribute("aria-describedby", `${id}-fault${hint ? ` ${id}-hint` : ""}`);
    this.label = h("label", { for: id }, label);
    this.element = h("div", { class: "field" }, this.label, h("span", { class: "control" }, this.control, unit && h("span", { class: "unit" }, unit)), note, this.fault);
  }

  choose(options, value = this.control.value) {
    this.control.replaceChildren(...options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  }

  get value() {
    return this.control.type === "checkbox" ? this.control.checked : this.control.value.trim();
  }

  /** The value: a number, null if the field is empty, else the text, which the service will refuse. */
  get number() {
    if (this.value === "") return null;
    return Number.isNaN(Number(this.value)) ? this.value : Number(this.value);
  }

  blame(message) {
    this.fault.textContent = message ?? "";
    this.fault.hidden = !message;
    if (message) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
  }
}

/** `send()` calls the service and returns the sentence of success, or {text, kind} for another outcome. */
export class Form {
  constructor({ fields, send, submit, more = [] }) {
    this.fields = fields;
    this.result = h("p", { class: "result", role: "status" });
    this.button = h("button", { class: "primary" }, submit);
    const element = h("form", { novalidate: true, onsubmit: (event) => event.preventDefault() || this.run(send) }, fields.map((field) => field.element), h("div", { class: "buttons" }, this.button, more), this.result);
    this.element = element;
  }

  async run(send) {
    this.clear();
    this.button.disabled = true;
    try {
      const told = await send();
      this.tell(told.text ?? told, told.kind ?? "good");
    } catch (error) {
      this.refused(error);
    } finally {
      this.button.disabled = false;
    }
  }

  clear() {
    for (const field of this.fields) field.blame(null);
    this.tell("", "");
  }

  tell(text, kind) {
    this.result.textContent = text;
    this.result.dataset.kind = kind;
  }

  refused(error) {
    this.tell(sentence(error), "bad");
    if (!(error instanceof Refusal)) return;
    const faults = error.errors ?? [];
    const places = faults.map((fault) => this.fields.find((each) => !each.element.hidden && fault.loc.some((part) => String(part).split(".").includes(each.name))));
    faults.forEach((fault, index) => places[index]?.blame(fault.msg));
    if (faults.length > 0 && places.every(Boolean)) this.tell(`Refused: ${faults.length === 1 ? "one field is" : `${faults.length} fields are`} marked above.`, "bad");
    places.find(Boolean)?.control.focus();
  }
}

/** A button with its own call of the service; the answer is shown as the result of `form`. */
export function action(label, form, send, kind = "") {
  return h("button", { type: "button", class: kind, onclick: () => form().run(send) }, label);
}
