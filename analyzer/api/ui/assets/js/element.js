// Elements of the page. What callers and people have chosen becomes text here, and never markup.

import { printable } from "./format.js";

const svgNamespace = "http://www.w3.org/2000/svg";

// h returns a new HTML element. The key class sets its class, on… adds a listener, and other keys set attributes; a value of
// false, null or undefined leaves the attribute out, and true sets it to "". Children are elements and texts.
export function h(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

// svg returns a new SVG element.
export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(svgNamespace, tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(typeof child === "string" ? visible(child) : child);
  }
  return element;
}

// visible returns text with escapes for the characters that could mislead its reader; lines and tabs stay.
function visible(text) {
  return String(text ?? "").split(/([\n\t])/).map((part, i) => (i % 2 ? part : printable(part))).join("");
}

// setText changes the text of an element if it differs, so that an element that says the same causes no work.
export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

// byID returns the element of index.html with this id.
export function byID(id) {
  return document.getElementById(id);
}

// panel returns a section with a heading. Its body is section.body; extra elements stand in the heading's line.
export function panel(title, ...extra) {
  const body = h("div", { class: "body" });
  const section = h("section", { class: "panel", "aria-label": title }, h("header", {}, h("h2", {}, title), ...extra), body);
  section.body = body;
  return section;
}

// table returns a table with these columns, and its tbody as table.body. A column that begins with # holds numbers. table.label(row) gives
// the name of its column to each cell of a row: a narrow screen shows names there, and no head.
export function table(caption, columns) {
  const head = columns.map((name) => h("th", { scope: "col", class: name.startsWith("#") && "number" }, name.replace("#", "")));
  const body = h("tbody");
  const element = h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, head)), body);
  element.body = body;
  element.label = (row) => {
    columns.forEach((name, i) => { row.children[i].dataset.column = name.replace("#", ""); });
    return row;
  };
  return element;
}
