// Compositions by name, with their notation and a fixed colour.

import { h } from "./dom.js";

export const HUES = 16;

/** The colour of a name, the same everywhere; datapipe/report/plots.py uses the same colours in reports. */
export function hueOf(name) {
  if (/^[1-9][0-9]{0,8}$/.test(name)) return (Number(name) - 1) % HUES;
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return ((hash ^ (hash >>> 16)) >>> 0) % HUES;
}

/** Notations of an app's compositions by name; they are kept after the user leaves the page. */
export class Names {
  constructor() {
    this.notations = new Map();
  }

  learn(compositions) {
    for (const { name, notation } of compositions) this.notations.set(name, notation);
  }

  /** Name, colour and notation, as elements. */
  told(name) {
    const notation = this.notations.get(name);
    return [swatch(name), h("b", {}, name), notation ? h("span", { class: "notation" }, notation) : null];
  }
}

export function swatch(name) {
  return h("i", { class: `swatch hue${hueOf(name)}`, "aria-hidden": "true" });
}
