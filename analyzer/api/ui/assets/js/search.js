// The search field: below it stand counted callers whose id begins with what was typed.

import { h, setText } from "./element.js";
import { get } from "./api.js";
import { address, label } from "./callerid.js";
import { number, percent } from "./format.js";

const wait = 250; // milliseconds after the last key: each question is a walk over the rows of all partitions
const lines = 20;

// Search is a combobox over an input. Its list comes after the input. may says whether anybody may ask now.
export class Search {
  constructor(input, may) {
    Object.assign(this, { input, may });
    this.list = h("div", { id: "found", role: "listbox", "aria-label": "Callers that were found" });
    this.note = h("p", { class: "muted small", role: "status" });
    this.box = h("div", { class: "found", hidden: true }, this.list, this.note);
    for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list" })) input.setAttribute(name, value);
    input.after(this.box);
    input.addEventListener("input", () => this.typed());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => this.hide());
    this.box.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.list.addEventListener("click", (event) => this.open(event.target.closest("[role=option]")));
  }

  typed() {
    this.hide();
    if (this.input.value.trim() && this.may()) this.timer = setTimeout(() => this.ask(this.input.value.trim()), wait);
  }

  hide() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.box.hidden = true;
    this.list.replaceChildren(); // an answer that comes now is not for what was typed
    this.mark(null);
  }

  async ask(text) {
    this.asking = new AbortController();
    const { signal } = this.asking;
    try {
      const [, kind, rest] = /^([a-z0-9_-]{1,32}):(.*)$/s.exec(text) ?? [];
      let answer = kind ? await get("callers", { limit: lines, kind, ...(rest && { prefix: rest }) }, signal) : null;
      if (!answer?.total) answer = await get("callers", { limit: lines, prefix: text }, signal); // an id may have a colon: 2001:db8::
      this.show(answer);
    } catch (error) {
      if (!signal.aborted) this.say(`No answer: ${error.sentence}.`);
    }
  }

  show(answer) {
    const byCaller = new Map();
    for (const line of answer.callers) if (!byCaller.has(address(line.caller))) byCaller.set(address(line.caller), line);
    this.list.replaceChildren(...[...byCaller].map(([to, line], i) => h("div", { role: "option", id: `found-${i}`, "aria-selected": "false", "data-to": to },
      h("bdi", { class: "id" }, label(line.caller)), h("span", { class: "muted small" }, stateOf(line)))));
    const missing = answer.missing?.length ? ` Partitions ${answer.missing.join(", ")} have not answered.` : "";
    const more = answer.total > answer.callers.length ? `${number(answer.callers.length)} of ${number(answer.total)} lines, those nearest to their limit first. Type more.` : "";
    this.say((answer.total === 0 ? "No counted caller has an id that begins like this." : more) + missing);
  }

  say(text) {
    setText(this.note, text);
    this.note.hidden = text === "";
    this.box.hidden = false;
    this.input.setAttribute("aria-expanded", String(this.list.children.length > 0));
  }

  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const options = [...this.list.children];
    if (event.key === "Escape") this.hide();
    if (!by || options.length === 0) return;
    event.preventDefault();
    const at = options.indexOf(this.marked) + by;
    this.mark(options[Math.min(at, options.length - 1)] ?? null);
  }

  mark(option) {
    this.marked?.setAttribute("aria-selected", "false");
    this.marked = option;
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else {
      this.input.removeAttribute("aria-activedescendant");
      this.input.setAttribute("aria-expanded", String(!this.box.hidden && this.list.children.length > 0));
    }
  }

  // open leads to the page of an option, by default of the one that is marked. It reports whether there is one.
  open(option = this.marked) {
    if (!option) return false;
    location.hash = option.dataset.to;
    this.hide();
    this.input.blur();
    return true;
  }
}

function stateOf(line) {
  const use = line.unlimited ? `${number(line.count)}, no limit` : `${number(line.count)} of ${number(line.limit)}, ${percent(line.share)}`;
  return `${line.rule}: ${use}${line.closed ? ", closed" : ""}`;
}
