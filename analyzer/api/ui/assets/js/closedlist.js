// The panel of closed callers: who, until when, under which rule and why.

import { h, panel, setText } from "./element.js";
import { number, span, utc } from "./format.js";
import { now } from "./api.js";
import { address } from "./callerid.js";
import { throttle } from "./poll.js";
import { VirtualList } from "./virtuallist.js";

const many = 10_000; // closures from which on the list is drawn less often

// ClosedList draws the closures of a model. find(text) keeps those with that text.
export class ClosedList {
  constructor(closures, open) {
    this.closures = closures;
    this.text = "";
    this.count = h("span", { class: "count", "data-count": "closed" }, "");
    this.element = panel("Closed callers", this.count);
    this.element.dataset.panel = "closed";
    this.list = new VirtualList({ name: "Closed callers", columns: ["Caller", "Opens in", "Rule", "Reason"], make: makeRow, fill: fillRow, onOpen: open });
    this.empty = h("p", { class: "empty" }, "Reading what is closed …");
    this.element.body.append(this.list.element, this.empty);
    this.soon = throttle(() => this.draw(), () => (closures.byKey.size > many ? 160 : 50));
  }

  run(signal) {
    this.closures.addEventListener("change", this.soon, { signal });
    const timer = setInterval(() => {
      this.closures.clean();
      this.soon();
    }, 1000);
    signal.addEventListener("abort", () => {
      clearInterval(timer);
      this.list.stop();
    });
    this.draw();
  }

  find(text) {
    this.text = text;
    this.draw();
  }

  draw() {
    const items = this.closures.list(this.text);
    this.list.update(items);
    this.list.element.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    const inForce = number(countInForce(items));
    const closed = this.text ? `${inForce} of ${number(countInForce(this.closures.list()))}` : inForce;
    setText(this.count, this.closures.complete ? closed : `${closed} …`);
    if (!this.closures.complete) setText(this.empty, "Reading what is closed …");
    else setText(this.empty, this.text ? `No closed caller has “${this.text}” in it.` : "Nobody is closed.");
  }
}

// countInForce leaves out what has opened, and stays in the list for a moment.
function countInForce(items) {
  const at = now();
  let n = 0;
  for (const c of items) if (!c.endedAt && c.until > at) n++;
  return n;
}

function cell(name, ...children) {
  return h("span", { class: name, role: "gridcell" }, ...children);
}

function makeRow() {
  const name = h("bdi");
  const link = h("a", { tabindex: "-1" }, name);
  const row = h("div", { class: "row", role: "row" }, cell("id", link), cell("until"), cell("rule"), cell("why"));
  row.parts = { name, link, until: row.children[1], rule: row.children[2], why: row.children[3] };
  return row;
}

function fillRow(row, c) {
  const { name, link, until, rule, why } = row.parts;
  setText(name, c.label);
  const to = address(c.caller);
  if (link.getAttribute("href") !== to) link.setAttribute("href", to);
  const at = now();
  const over = c.endedAt || c.until <= at;
  setText(until, over ? "open" : c.closeAt > at ? `closes in ${span(c.closeAt - at)}` : span(c.until - at));
  if (until.title !== utc(c.until)) until.title = utc(c.until);
  setText(rule, c.rule === "_control" ? "by hand" : c.rule);
  setText(why, reason(c));
  row.dataset.mode = c.mode;
  row.classList.toggle("over", Boolean(over));
}

// reason says in a few words why a caller is closed.
function reason(c) {
  const words = [];
  if (c.mode === "shadow") words.push("shadow, not blocked");
  if (c.early) words.push("predicted");
  if (c.rule === "_control") words.push("a person has closed it");
  else words.push(`${number(c.count)} of ${number(c.limit)} in ${span(c.windowNs / 1e6)}`);
  return words.join(" · ");
}

