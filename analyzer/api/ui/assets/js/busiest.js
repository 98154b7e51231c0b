// The busiest callers, each against the limit that it is nearest to.

import { h, panel, setText, table } from "./element.js";
import { get } from "./api.js";
import { csvButton, linesOf } from "./csv.js";
import { poll } from "./poll.js";
import { number, percent, span } from "./format.js";
import { address, encoded, label } from "./callerid.js";

const every = 3000; // milliseconds
const lines = 10;

// Busiest is the panel. A line shows the rates that the analyzers measure, and the rule whose limit is filled most.
export class Busiest {
  constructor() {
    this.table = table("Busiest callers", ["Caller", "#Admitted/s", "#Blocked/s", "Of its limit"]);
    this.empty = h("p", { class: "empty" }, "Reading who is busy …");
    this.element = panel("Busiest callers", h("span", { class: "tools" }, csvButton("busiest", () => linesOf(this.table))));
    this.about = h("p", { class: "muted small about", hidden: true });
    this.element.body.append(h("div", { class: "wide", tabindex: "0" }, this.table), this.empty, this.about);
    this.element.dataset.panel = "busiest";
    this.rows = new Map();
  }

  run(signal) {
    return poll(() => this.ask(signal), every, signal);
  }

  async ask(signal) {
    try {
      const lists = await Promise.all(["rate", "blocked"].map((sort) => get("callers", { sort, limit: lines }, signal)));
      const callers = busiestOf(lists.flatMap((list) => list.callers ?? []));
      const states = await Promise.all(callers.map((line) => this.state(line.caller, signal)));
      if (!signal.aborted) this.show(callers, states, lists[0].half_ns);
    } catch (error) {
      if (!signal.aborted && this.rows.size === 0) setText(this.empty, `No answer: ${error.sentence}.`);
    }
  }

  async state(caller, signal) {
    try {
      return await get("caller", `caller=${encoded(caller)}`, signal);
    } catch {
      return null;
    }
  }

  show(callers, states, half) {
    this.empty.hidden = callers.length > 0;
    this.about.hidden = callers.length === 0;
    setText(this.about, `Where many requests come, rates are estimates from a sample: ± holds in 19 of 20 cases. A request counts half as much ${span(half / 1e6)} later.`);
    setText(this.empty, "Nobody sends requests now.");
    const rows = callers.map((line, i) => {
      const id = encoded(line.caller);
      const row = this.rows.get(id) ?? this.makeRow(line.caller);
      fillRow(row, line, states[i]);
      return [id, row];
    });
    this.rows = new Map(rows);
    const elements = rows.map(([, row]) => row.element);
    if (elements.some((element, i) => this.table.body.children[i] !== element) || this.table.body.children.length !== elements.length) {
      this.table.body.replaceChildren(...elements);
    }
  }

  makeRow(caller) {
    const row = { admitted: h("td", { class: "number" }), blocked: h("td", { class: "number" }), share: meter() };
    row.element = this.table.label(h("tr", {}, h("td", { class: "id" }, h("a", { href: address(caller) }, h("bdi", {}, label(caller)))), row.admitted, row.blocked, h("td", {}, row.share.element)));
    return row;
  }
}

// busiestOf returns the callers with the most requests, admitted and blocked. A caller that is closed may be in the list of blocked ones
// only, and one may be in both.
function busiestOf(callers) {
  const byID = new Map(callers.map((line) => [encoded(line.caller), line]));
  return [...byID.values()].sort((a, b) => b.admitted + b.blocked - a.admitted - a.blocked).slice(0, lines);
}

// nearest returns the rule under which a caller has used most of its limit; undefined if none counts it.
function nearest(state) {
  const counted = (state?.rules ?? []).filter((rule) => rule.counted && !rule.limit.unlimited);
  return counted.sort((a, b) => Number(b.mode === "enforce") - Number(a.mode === "enforce") || b.share - a.share)[0];
}

function fillRow(row, line, state) {
  setText(row.admitted, rate(line.admitted, line.admitted_error));
  setText(row.blocked, rate(line.blocked, line.blocked_error));
  row.blocked.classList.toggle("zero", line.blocked < 0.05);
  const rule = nearest(state);
  row.share.show(rule?.share, rule ? `${number(rule.count)} of ${number(rule.limit.limit)}` : withoutLimit(state), rule?.rule);
}

// rate writes a rate and its error. A rate of 0 is that of a caller who is not in the sample.
function rate(value, error) {
  return value > 0 && error >= 0.05 ? `${number(value)} ± ${number(error)}` : number(value);
}

// withoutLimit says why no limit is near.
function withoutLimit(state) {
  const unlimited = (state?.rules ?? []).filter((rule) => rule.limit.unlimited);
  if (unlimited.some((rule) => rule.limit.source === "by_hand")) return "No limit, by hand";
  return unlimited.length > 0 ? "no limit" : state ? "not counted" : "not known";
}

// meter returns a bar that shows how much of a limit is used: its element, and show(share, text, title).
export function meter() {
  const bar = h("span", { class: "bar" });
  const text = h("span", { class: "meter-text" });
  const element = h("span", { class: "meter" }, h("span", { class: "track" }, bar), text);
  return {
    element,
    show(share, words, title = "") {
      bar.style.width = `${Math.min(100, Math.max(0, (share ?? 0) * 100))}%`;
      element.dataset.level = share >= 1 ? "full" : share >= 0.8 ? "near" : "low";
      setText(text, words);
      element.title = share === undefined ? title : `${percent(share)} of the limit of ${title}`;
    },
  };
}
