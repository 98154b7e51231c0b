// What people decided by hand, the newest first, and how to undo it.

import { h, panel, setText, table } from "./element.js";
import { get } from "./api.js";
import { csvButton, linesOf } from "./csv.js";
import { poll } from "./poll.js";
import { known, time, utc } from "./format.js";
import { address, label } from "./callerid.js";
import { actionWord, stateWord } from "./history.js";

const every = 3000; // milliseconds
const lines = 100;

// actionsPage returns the page. state of the address keeps records of that state; it may be empty.
export function actionsPage({ state, status, undo, signal }) {
  return new ActionsPage({ state, status, undo, signal });
}

class ActionsPage {
  constructor(parts) {
    Object.assign(this, parts);
    this.title = "Actions";
    this.selected = null;
    const filters = [["", "All"], ["in_force", "In force"], ["undone", "Undone"]];
    this.filter = h("div", { class: "tabs", role: "group", "aria-label": "Which records" },
      filters.map(([value, text]) => h("a", { href: value ? `#/actions/${value}` : "#/actions", "aria-current": value === this.state ? "true" : null }, text)));
    this.table = table("Actions", ["When", "What", "Caller", "By", "Reason", "Until", "State", "Act"]);
    this.empty = h("p", { class: "empty" }, "Reading …");
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.older() }, "Older records");
    this.list = panel("Actions", this.filter, h("span", { class: "tools" }, csvButton("actions", () => linesOf(this.table))));
    this.list.body.append(h("div", { class: "wide", tabindex: "0" }, this.table), this.empty, this.more);
    this.element = h("div", { class: "page actions-page" }, h("h1", { tabindex: "-1" }, "Actions"),
      h("p", { class: "muted" }, "What people decided by hand. Records are never deleted; an undo is a record too."), this.list);
    this.records = [];
    this.keys = {
      next: () => this.move(1), previous: () => this.move(-1),
      enter: () => (this.current()?.caller ? (location.hash = address(this.current().caller)) : false),
      undo: () => (this.current() && this.canUndo(this.current()) ? this.undo(this.current()) : false),
    };
  }

  start() {
    poll(() => this.ask(), every, this.signal);
    window.addEventListener("floodgate:acted", () => this.ask(), { signal: this.signal });
  }

  question(cursor) {
    return { limit: lines, ...(this.state && { state: this.state }), ...(cursor && { cursor }) };
  }

  async ask() {
    try {
      const answer = await get("actions", this.question(), this.signal);
      if (this.signal.aborted) return;
      const kept = this.records.slice(lines); // pages that were asked for besides
      if (kept.length === 0) this.next = answer.next;
      this.show([...answer.actions, ...kept.filter((old) => !answer.actions.some((a) => a.id === old.id))]);
    } catch (error) {
      if (!this.signal.aborted && this.records.length === 0) setText(this.empty, `No answer: ${error.sentence}.`);
    }
  }

  async older() {
    try {
      const answer = await get("actions", this.question(this.next), this.signal);
      this.next = answer.next;
      this.show([...this.records, ...answer.actions]);
    } catch (error) {
      if (!this.signal.aborted) setText(this.more, `Older records (${error.sentence})`);
    }
  }

  show(records) {
    const drawn = JSON.stringify([records, this.selected, this.status.may("operate")]);
    this.more.hidden = !this.next;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.records = records;
    this.empty.hidden = records.length > 0;
    setText(this.empty, this.state ? `No record is ${stateWord(this.state)}.` : "Nobody has decided anything by hand.");
    this.table.body.replaceChildren(...records.map((record) => this.table.label(this.row(record))));
  }

  row(record) {
    const at = Date.parse(record.time);
    const until = Date.parse(record.until);
    const undone = record.undone_by ? `undone by ${record.undone_by.author}: ${record.undone_by.reason}` : null;
    return h("tr", { "data-record": record.id, "aria-selected": record.id === this.selected ? "true" : null },
      h("td", {}, h("time", { datetime: utc(at), title: utc(at) }, time(at))),
      h("td", {}, actionWord(record)),
      h("td", { class: "id" }, record.caller ? h("a", { href: address(record.caller) }, h("bdi", {}, label(record.caller))) : this.targetOf(record)),
      h("td", {}, record.author), h("td", { class: "reason" }, record.reason, undone && h("span", { class: "muted small block" }, undone)),
      h("td", {}, known(until) ? h("time", { datetime: utc(until), title: utc(until) }, time(until)) : "–"),
      h("td", {}, h("span", { class: "state", "data-level": record.state === "in_force" || record.state === "waiting" ? "warn" : "" }, stateWord(record.state))),
      h("td", {}, this.canUndo(record) && h("button", { type: "button", class: "small", onclick: () => this.undo(record) }, "Undo…")));
  }

  targetOf(record) {
    const target = this.records.find((r) => r.id === record.target);
    if (target?.caller) return h("span", {}, `${target.action} of `, h("bdi", {}, label(target.caller)));
    return record.target ? h("code", { class: "small" }, record.target.slice(0, 8)) : record.rule || "all rules";
  }

  canUndo(record) {
    return record.state === "in_force" && record.action !== "undo" && this.status.may(record.action === "mode" ? "admin" : "operate");
  }

  current() {
    return this.records.find((record) => record.id === this.selected);
  }

  move(by) {
    if (this.records.length === 0) return;
    const at = this.records.findIndex((record) => record.id === this.selected);
    this.selected = this.records[at < 0 ? 0 : Math.min(this.records.length - 1, Math.max(0, at + by))].id;
    this.show(this.records);
    this.table.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }
}
