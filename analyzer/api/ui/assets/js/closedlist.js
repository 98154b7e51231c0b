// The panel of closed callers: who, until when, under which rule and why.

import { h, panel, setText } from "./element.js";
import { number, span, utc } from "./format.js";
import { get, now } from "./api.js";
import { address, encoded } from "./callerid.js";
import { csvButton } from "./csv.js";
import { poll, throttle } from "./poll.js";
import { VirtualList } from "./virtuallist.js";

const many = 10_000; // closures from which on the list is drawn less often
const recordsEvery = 5000; // milliseconds
const records = 1000; // of people, that are known here
const byHand = "_control"; // the rule of what people have closed

// ClosedList draws the closures of a model. find(text) keeps those with that text. A person may choose a rule.
export class ClosedList {
  constructor(closures, open) {
    this.closures = closures;
    this.text = "";
    this.inFlight = new Set(); // rules that limit how many requests are in flight: they have no window
    this.byPeople = new Map(); // the newest record in force that closes a caller, percent-encoded
    this.count = h("span", { class: "count", "data-count": "closed" }, "");
    this.rule = h("select", { "aria-label": "Closed by which rule", onchange: () => this.draw() }, h("option", { value: "" }, "All rules"));
    this.element = panel("Closed callers", this.count, h("span", { class: "tools" }, this.rule, csvButton("closed", () => this.lines())));
    this.element.dataset.panel = "closed";
    this.list = new VirtualList({ name: "Closed callers", columns: ["Caller", "Opens in", "Rule", "Reason"], make: makeRow, fill: (row, c) => fillRow(row, c, this.reason(c)), onOpen: open });
    this.empty = h("p", { class: "empty" }, "Reading what is closed …");
    this.element.body.append(this.list.element, this.empty);
    this.soon = throttle(() => this.draw(), () => (closures.byKey.size > many ? 160 : 50));
  }

  run(signal) {
    this.signal = signal;
    this.closures.addEventListener("change", this.soon, { signal });
    const timer = setInterval(() => {
      this.closures.clean();
      this.soon();
    }, 1000);
    signal.addEventListener("abort", () => {
      clearInterval(timer);
      this.list.stop();
    });
    window.addEventListener("floodgate:acted", () => this.askRecords(signal), { signal });
    poll(() => this.closures.rules.has(byHand) && this.askRecords(signal), recordsEvery, signal);
    this.draw();
  }

  // askRecords asks who has closed callers by hand, and why: decisions do not say that.
  async askRecords(signal) {
    const answer = await get("actions", { action: "close", state: "in_force", limit: records }, signal).catch(() => null);
    if (!answer || signal.aborted) return;
    this.byPeople = new Map(answer.actions.toReversed().map((action) => [encoded(action.caller), action]));
    this.draw();
  }

  find(text) {
    this.text = text;
    this.draw();
  }

  draw() {
    this.drawRules();
    const items = this.closures.list(this.text, this.rule.value);
    this.list.update(items);
    this.list.element.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    const inForce = number(countInForce(items));
    const closed = this.text || this.rule.value ? `${inForce} of ${number(countInForce(this.closures.list()))}` : inForce;
    setText(this.count, this.closures.complete ? closed : `${closed} …`);
    if (!this.closures.complete) setText(this.empty, "Reading what is closed …");
    else setText(this.empty, this.text ? `No closed caller has “${this.text}” in it.` : this.rule.value ? "Nobody is closed by this rule." : "Nobody is closed.");
  }

  // drawRules adds the rules that have closed somebody.
  drawRules() {
    if (this.rule.options.length === this.closures.rules.size + 1) return;
    const chosen = this.rule.value;
    this.rule.replaceChildren(this.rule.options[0], ...[...this.closures.rules].sort().map((name) => h("option", { value: name }, ruleName(name))));
    this.rule.value = chosen;
    this.askRules();
  }

  // askRules asks what the rules measure: decisions have numbers only.
  async askRules() {
    const answer = await get("rules", "", this.signal).catch(() => null);
    if (!answer || this.signal.aborted) return;
    this.inFlight = new Set(answer.rules.filter((rule) => rule.measure === "in_flight").map((rule) => rule.name));
    this.draw();
  }

  // reason says in a few words why a caller is closed. Of what was closed by hand, as the column before says, it says who did and why.
  reason(c) {
    const words = [];
    const record = c.rule === byHand && this.byPeople.get(c.id);
    if (record) words.push(`${record.author}: ${record.reason}`);
    else if (c.rule === byHand) words.push("a person has closed it");
    else words.push(`${number(c.count)} of ${number(c.limit)} in ${this.inFlight.has(c.rule) ? "flight" : span(c.windowNs / 1e6)}`);
    if (c.hold) words.push(`${number(c.hold.held)} expected of ${number(c.hold.in_flight)} in flight`, `margin ${number(c.hold.margin)}`);
    else if (c.early) words.push("predicted");
    if (c.mode === "shadow") words.push("shadow, not blocked");
    return words.join(" · ");
  }

  // lines returns all lines of the list for a spreadsheet, and not only those that can be seen.
  lines() {
    const line = (c) => [c.label, ruleName(c.rule), c.mode, utc(c.closeAt), utc(c.until), this.reason(c)];
    return [["Caller", "Rule", "Mode", "Closed at", "Until", "Reason"], ...this.closures.list(this.text, this.rule.value).map(line)];
  }
}

function ruleName(rule) {
  return rule === byHand ? "by hand" : rule;
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

function fillRow(row, c, reason) {
  const { name, link, until, rule, why } = row.parts;
  setText(name, c.label);
  const to = address(c.caller);
  if (link.getAttribute("href") !== to) link.setAttribute("href", to);
  const at = now();
  const over = c.endedAt || c.until <= at;
  setText(until, over ? "open" : c.closeAt > at ? `closes in ${span(c.closeAt - at)}` : span(c.until - at));
  if (until.title !== utc(c.until)) until.title = utc(c.until);
  setText(rule, ruleName(c.rule));
  setText(why, reason);
  if (why.title !== reason) why.title = reason;
  row.dataset.mode = c.mode;
  row.classList.toggle("over", Boolean(over));
}
