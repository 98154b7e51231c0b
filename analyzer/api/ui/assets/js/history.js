// What happened to one caller: its closures, and what people did by hand, the newest first.

import { h, panel } from "./element.js";
import { get } from "./api.js";
import { csvButton } from "./csv.js";
import { known, number, time, utc } from "./format.js";

const lines = 50; // records of people
const run = 6; // what rules did without a person between: so many lines, and how many more there were
const kinds = { closed: "Closed", changed: "Extended", opened: "Opened", ended: "Ended" };

// History is the panel. undo(record) asks a person to end a record's effect.
export class History {
  constructor(id, closures, undo, may) {
    Object.assign(this, { id, closures, undo, may });
    this.list = h("ol", { class: "history" });
    this.element = panel("History", h("span", { class: "tools" }, csvButton("history", () => this.table())));
    this.element.dataset.panel = "history";
    this.element.body.append(this.list);
    this.nothing = "Reading what has happened …"; // is said while there is no line
    this.actions = [];
    this.counted = [];
    this.draw();
  }

  async ask(signal) {
    try {
      const answer = await get("actions", `caller=${this.id}&limit=${lines}`, signal);
      this.actions = answer.actions;
      this.nothing = "Nothing has happened that is still known.";
    } catch (error) {
      if (signal.aborted) return;
      this.nothing = `No answer: ${error.sentence}.`;
    }
    this.draw();
  }

  // showClosures takes the closures that the rules of explain's answer tell of.
  showClosures(rules) {
    this.counted = rules.filter((rule) => rule.closure).map((rule) => ({ kind: "closed", at: Date.parse(rule.closure.close_at), rule: rule.rule, until: Date.parse(rule.closure.until), mode: rule.mode }));
    this.draw();
  }

  // undoNewest is for the key u.
  undoNewest() {
    const record = this.actions.find((action) => action.state === "in_force" && action.action !== "undo");
    if (!record || !this.may()) return false;
    this.undo(record);
    return true;
  }

  draw() {
    const changes = this.closures.changes(this.id);
    const seen = new Set(changes.map((change) => `${change.kind} ${change.rule} ${change.at}`));
    const counted = this.counted.filter((c) => !changes.some((change) => change.kind === "closed" && change.rule === c.rule && Math.abs(change.at - c.at) < 1000) && !seen.has(`${c.kind} ${c.rule} ${c.at}`));
    const all = [...changes, ...counted, ...this.actions.map((action) => ({ at: Date.parse(action.time), action }))];
    all.sort((a, b) => b.at - a.at);
    this.items = all.filter((item, i) => !repeats(item, all[i - 1]));
    const shown = shortened(this.items);
    const text = JSON.stringify([shown, this.nothing, this.may()]);
    if (text === this.drawn) return;
    this.drawn = text;
    if (shown.length === 0) this.list.replaceChildren(h("li", { class: "empty" }, this.nothing));
    else this.list.replaceChildren(...shown.map((item) => (item.action ? this.byHand(item.action) : item.more ? moreOf(item) : ofRules(item))));
  }

  // table returns all of it for a spreadsheet.
  table() {
    const lines = this.items.map((item) => {
      if (!item.action) return [utc(item.at), wordsOf(item), "", "", ""];
      const { action } = item;
      return [utc(item.at), actionWord(action), action.author, action.reason, stateWord(action.state)];
    });
    return [["When", "What", "By", "Reason", "State"], ...lines];
  }

  byHand(action) {
    const can = action.state === "in_force" && this.may() && action.action !== "undo";
    return h("li", { class: "by-hand", "data-record": action.id }, moment(Date.parse(action.time)),
      h("span", { class: "what" }, h("strong", {}, `${actionWord(action)} by ${action.author}`), `: ${action.reason}`),
      h("span", { class: "state", "data-level": action.state === "in_force" ? "warn" : "" }, stateWord(action.state)),
      can && h("button", { type: "button", class: "small", onclick: () => this.undo(action) }, "Undo"));
  }
}

// repeats reports whether a closure was extended once more right after: the last end is the one that counts.
function repeats(item, newer) {
  return item.kind === "changed" && newer?.kind === "changed" && newer.rule === item.rule;
}

// shortened leaves out most lines of long runs that no person has interrupted: a rule of a two-second window closes a caller hundreds of
// times between two records of people.
function shortened(items) {
  const shown = [];
  for (let from = 0, to; from < items.length; from = to) {
    for (to = from + 1; !items[from].action && to < items.length && !items[to].action;) to++;
    const left = to - from - run;
    shown.push(...items.slice(from, left > 1 ? from + run : to));
    if (left > 1) shown.push({ more: left, at: items[to - 1].at });
  }
  return shown;
}

function moreOf(item) {
  return h("li", { class: "muted" }, moment(item.at), h("span", { class: "what" }, `${number(item.more)} more changes by rules since then`));
}

function ofRules(item) {
  return h("li", {}, moment(item.at), h("span", { class: "what" }, wordsOf(item)));
}

function wordsOf(item) {
  const until = item.kind !== "ended" && item.kind !== "opened" && known(item.until) ? ` until ${time(item.until)}` : "";
  return [kinds[item.kind] ?? item.kind, until, item.rule === "_control" ? " by hand" : ` by rule ${item.rule}`, item.held ? ", by requests in flight" : item.early ? ", predicted" : "", item.mode === "shadow" ? ", in shadow mode" : ""].join("");
}

function moment(at) {
  return h("time", { datetime: utc(at), title: utc(at) }, time(at));
}

// actionWord names an action with its object: "Limit 50 of per-key".
export function actionWord(action) {
  const names = { close: "Close", open: "Open", limit: `Limit ${action.limit ?? ""}`, reset: "Reset", mode: "Shadow mode", undo: "Undo" };
  const rule = action.rule ? ` (${action.rule})` : "";
  return (names[action.action] ?? action.action) + rule;
}

// stateWord writes the state of a record for people.
export function stateWord(state) {
  return state.replace("_", " ");
}
