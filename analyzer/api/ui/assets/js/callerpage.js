// The page of one caller: is it closed and why, its windows slot by slot, what happened, and what a person may do.

import { h, panel, setText } from "./element.js";
import { get, now } from "./api.js";
import { poll, throttle } from "./poll.js";
import { label } from "./callerid.js";
import { known, nanoseconds, number, percent, plural, sentenceHere, span, time, utc } from "./format.js";
import { drawWindow } from "./windowchart.js";
import { meter } from "./busiest.js";
import { History } from "./history.js";

const every = 1000; // milliseconds

const verdictWords = {
  closed: "Closed", closed_by_hand: "Closed by hand", closed_early: "Closed, predicted", opened_by_hand: "Opened by hand", shadow_only: "Would be closed: shadow mode",
  near: "Near its limit", below: "Open", ended: "Open again", unlimited: "No limit", not_counted: "Not counted", not_matched: "Not matched", no_rule: "No rule", unknown: "Not known",
};

const verdictLevels = {
  closed: "bad", closed_by_hand: "bad", closed_early: "bad", opened_by_hand: "warn", shadow_only: "warn", near: "warn", unknown: "warn", below: "good", ended: "good", unlimited: "good",
};

// callerPage returns the page of a caller, percent-encoded.
export function callerPage({ id, closures, status, actOn, undo, signal }) {
  return new CallerPage({ id, closures, status, actOn, undo, signal });
}

class CallerPage {
  constructor(parts) {
    Object.assign(this, parts);
    this.title = decodeForTitle(this.id);
    this.name = h("h1", { class: "id", tabindex: "-1" }, h("bdi", {}, this.title));
    this.verdict = h("span", { class: "verdict", role: "status" }, "…"); // the sentence changes each second: nobody wants to hear that
    this.left = h("span", { class: "left" });
    this.sentence = h("p", { class: "sentence" }, "Asking the owner of its partition …");
    this.place = h("p", { class: "muted small" });
    this.buttons = h("div", { class: "buttons", hidden: true }, ["close", "open", "limit", "reset"].map((action) => this.button(action)));
    this.rules = h("div", { class: "rules" });
    this.history = new History(this.id, this.closures, this.undo, () => this.status.may("operate"));
    this.element = h("div", { class: "page caller" }, h("p", { class: "crumb" }, h("a", { href: "#/" }, "Overview"), " / caller"),
      h("div", { class: "caller-head" }, this.name, h("div", { class: "verdict-line" }, this.verdict, this.left), this.sentence, this.buttons, this.place),
      this.rules, this.history.element);
    this.cards = new Map();
    this.keys = {
      close: () => this.act("close"), open: () => this.act("open"), undo: () => this.history.undoNewest(),
      next: () => scrollBy({ top: 120 }), previous: () => scrollBy({ top: -120 }),
    };
  }

  button(action) {
    const names = { close: "Close…", open: "Open…", limit: "Limit…", reset: "Reset…" };
    return h("button", { type: "button", "data-action": action, onclick: () => this.act(action) }, names[action]);
  }

  act(action) {
    if (!this.answer) return false;
    const counted = this.answer.rules.find((r) => r.closure?.in_force) ?? this.answer.rules.find((r) => r.mode === "enforce");
    return this.actOn(action, this.answer.caller, this.answer.rules, action === "limit" ? counted?.rule : "");
  }

  start() {
    const soon = throttle(() => this.ask(), 200);
    this.closures.addEventListener("change", (event) => {
      if (event.detail.has(this.id)) soon();
    }, { signal: this.signal });
    window.addEventListener("floodgate:acted", () => { soon(); this.history.ask(this.signal); }, { signal: this.signal });
    this.status.addEventListener("change", () => this.allow(), { signal: this.signal });
    this.allow();
    poll(() => this.ask(), every, this.signal);
    poll(() => this.history.ask(this.signal), 5000, this.signal);
    const timer = setInterval(() => this.countDown(), 250);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  // allow shows the buttons to those who may use them, when the answer is there that their dialogs need.
  allow() {
    this.buttons.hidden = !this.answer || !this.status.may("operate");
  }

  async ask() {
    if (this.asking) return;
    this.asking = true;
    const answer = await get("explain", `caller=${this.id}`, this.signal).catch((error) => error);
    this.asking = false;
    if (this.signal.aborted) return;
    if (answer instanceof Error) return this.fail(answer);
    this.answer = answer;
    this.allow();
    this.show(answer);
  }

  fail(error) {
    setText(this.verdict, "Not known");
    this.verdict.dataset.level = "warn";
    setText(this.sentence, `No answer about this caller: ${error.sentence}.`);
  }

  show(answer) {
    const name = label(answer.caller);
    setText(this.name.firstChild, name);
    document.title = `${name} · floodgate`;
    setText(this.verdict, verdictWords[answer.verdict] ?? answer.verdict);
    this.verdict.dataset.level = verdictLevels[answer.verdict] ?? "";
    this.verdict.dataset.verdict = answer.verdict;
    setText(this.sentence, sentenceHere(answer.sentence, name));
    const p = answer.partition;
    setText(this.place, `Partition ${p.partition}, ${p.stale ? "stale" : p.state}${answer.at ? `, counted up to offset ${number(answer.at.offset)}` : ""}.`);
    this.countDown();
    for (const rule of answer.rules) this.card(rule).show(rule, Date.parse(answer.now), answer);
    for (const [name, card] of this.cards) {
      if (answer.rules.some((rule) => rule.rule === name)) continue;
      card.element.remove();
      this.cards.delete(name);
    }
    this.history.showClosures(answer.rules);
  }

  countDown() {
    const until = Date.parse(this.answer?.until);
    const counts = known(until) && until > now();
    setText(this.left, counts ? `for ${span(until - now())} more` : "");
    if (counts && this.left.title !== utc(until)) this.left.title = utc(until);
  }

  card(rule) {
    let card = this.cards.get(rule.rule);
    if (!card) {
      card = new RuleCard(rule.rule);
      this.cards.set(rule.rule, card);
      this.rules.append(card.element);
    }
    return card;
  }
}

// RuleCard shows what one rule says of the caller.
class RuleCard {
  constructor(name) {
    this.about = h("span", { class: "muted small" });
    this.mode = h("span", { class: "state" });
    this.meter = meter();
    this.picture = h("div", { class: "picture" });
    this.sentence = h("p", { class: "small" });
    this.facts = h("dl", { class: "facts" });
    this.element = panel(name, this.mode, this.about);
    this.element.dataset.rule = name;
    this.element.body.append(h("div", { class: "meter-line" }, this.meter.element), this.picture, this.sentence, this.facts);
  }

  // show draws the rule as of a time. What is said above the cards already, it does not repeat.
  show(rule, at, { caller, sentence }) {
    setText(this.about, `${rule.window} · ${rule.measure}${rule.match ? ` · ${rule.match}` : ""}`);
    setText(this.mode, rule.mode === "shadow" ? "shadow" : "enforces");
    this.mode.dataset.level = rule.mode === "shadow" ? "warn" : "good";
    const limit = rule.limit.unlimited ? "no limit" : number(rule.limit.limit);
    this.meter.show(rule.limit.unlimited ? 0 : rule.share, `${rule.lower_bound ? "at least " : ""}${number(rule.count)} of ${limit}`, rule.rule);
    const picture = drawWindow(rule, at);
    if (picture) this.picture.replaceChildren(picture);
    else this.picture.replaceChildren(h("p", { class: "muted small empty-window" }, rule.count > 0 ? "The window is one slot." : "The window is empty."));
    setText(this.sentence, sentenceHere(rule.sentence, label(caller)));
    this.sentence.hidden = rule.sentence === sentence;
    this.facts.replaceChildren(...facts(rule).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }
}

function facts(rule) {
  const list = [];
  const source = { rule: "the rule", override_id: "an override of the rule", override_network: "an override of the rule", by_hand: "a person", level: "the level of the pool" };
  if (rule.limit.source !== "rule") list.push(["Limit from", `${source[rule.limit.source]}${rule.limit.override ? `: ${rule.limit.override}` : ""}`]);
  if (rule.limit.by_hand) list.push(["By", `${rule.limit.by_hand.author}: ${rule.limit.by_hand.reason}`]);
  if (rule.closure?.in_force) list.push(["Closed", `${time(Date.parse(rule.closure.close_at))} – ${time(Date.parse(rule.closure.until))}`], ["Closes in a row", number(rule.closure.nth)]);
  if (rule.decision?.lag_ns) list.push(["Lag then", `${number(rule.decision.lag_ns / 1e6)} ms`]);
  if (rule.closure && rule.limit.capacity) list.push(["Peak", `${number(rule.closure.peak)} (${percent(rule.closure.peak / rule.limit.capacity)})`]);
  if (rule.room) list.push(...roomFacts(rule.room));
  if (rule.pool) list.push(...poolFacts(rule.pool));
  if (rule.rate) list.push(["Demand", `${number(rule.rate)}/s`]);
  return list;
}

// poolFacts says what the callers of a pool ask for together, and what each may use.
function poolFacts(pool) {
  const list = [["Pool", `${number(pool.asked)} of ${number(pool.capacity)}${pool.whole ? "" : ", of this partition alone"}`]];
  if (pool.level) list.push(["Level", `${number(pool.level)}, asked for more: about ${number(pool.above ?? 0)}`]);
  if (pool.weight_of) list.push(["Weight", `${pool.weight}, of ${pool.weight_of}`]);
  return list;
}

// roomFacts says what requests in flight hold of the limit, and from what that is known.
function roomFacts(room) {
  const learned = room.learned ? `${nanoseconds(room.duration_ns)} on average; ${number(room.mean)} each, from ${plural(room.learned, "response")}` : `${number(room.mean)} each, as the rule estimates`;
  return [["In flight", `${number(room.in_flight)} (${learned})`], ["Expected of them", number(room.held)], ["Margin", number(room.margin)], ["Left", number(Math.max(0, room.left))]];
}

function decodeForTitle(id) {
  try {
    return label({ kind: id.slice(0, id.indexOf(":")), id: decodeURIComponent(id.slice(id.indexOf(":") + 1)) });
  } catch {
    return id;
  }
}
