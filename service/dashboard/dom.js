// Functions that create an element in one line.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: attributes, `on…` listeners, and children (text, nodes, lists; null is ignored). */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set a text only if it differs, so that an unchanged text causes no layout. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replace the children of `element` with the result of `make()` if `key` has changed since the last call. */
export function renew(element, key, make) {
  if (element.shownKey === key) return false;
  element.shownKey = key;
  element.replaceChildren(...[make()].flat().filter(Boolean));
  return true;
}

export function shown(element, yes) {
  element.hidden = !yes;
}
