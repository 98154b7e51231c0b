// Tables as CSV (RFC 4180), for spreadsheets.

import { h } from "./element.js";

// A spreadsheet takes a text that begins so for a formula, also between quotation marks. Callers choose their ids, so such a text gets an
// apostrophe, which makes it a text.
const formula = /^\s*[=+\-@\t\r\n＝＋－＠]/u;

// csvOf returns lines of cells, which are texts and numbers, as CSV.
export function csvOf(lines) {
  return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

function cell(value) {
  if (typeof value === "number") return String(value);
  const text = String(value ?? "");
  return `"${(formula.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

// linesOf returns the lines of a table of the page, its head first. Moments are written as the API has them, and counts as plain numbers.
export function linesOf(table) {
  const head = [...table.tHead.rows[0].cells].map((c) => c.textContent);
  const columns = head.map((_, i) => i).filter((i) => head[i] !== "Act");
  return [head, ...[...table.tBodies[0].rows].map((row) => [...row.cells].map(valueOf))].map((line) => columns.map((i) => line[i]));
}

function valueOf(element) {
  const moment = element.querySelector("time");
  const text = element.textContent;
  if (moment) return moment.dateTime;
  return element.classList.contains("number") && /^\d[\d,]*$/.test(text) ? Number(text.replaceAll(",", "")) : text;
}

// csvButton returns a button that saves lines as a file. lines is a function that returns them.
export function csvButton(name, lines) {
  return h("button", { type: "button", class: "small csv", "data-csv": name, title: "Save the lines of this table, for a spreadsheet", onclick: () => save(name, csvOf(lines())) }, "CSV");
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" })); // without the mark, a spreadsheet takes UTF-8 for something else
  h("a", { href: url, download: `floodgate-${name}-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}Z.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
