// What an action will do, in words: people read it before they confirm.

import { number, span, time } from "./format.js";
import { now } from "./api.js";

// consequence returns sentences about an action: {action, who, rule, until, limit, rules}. who is the caller's label; rules is what explain
// says of the caller's rules, if it is known.
export function consequence(a) {
  const when = a.until ? `until ${time(a.until)} (${span(a.until - now())})` : "";
  switch (a.action) {
    case "close":
      return `Gates refuse every request of ${a.who} ${when}, whatever the rules say. Its requests are counted as blocked.`;
    case "open":
      return `${a.who} has no limit under ${underRule(a.rule)} ${when}. ${opens(a)} Counting goes on: when the time is over, the rules close it as before.`;
    case "limit":
      return `Under rule ${a.rule}, the limit of ${a.who} is ${number(a.limit)} ${when}${before(a)}. No count is lost. ${fits(a)}`;
    case "reset":
      return `The windows of ${a.who} under ${underRule(a.rule)} start at nothing, and so does its escalation. ${opens(a)} This cannot be undone: the counts are gone.`;
    case "mode":
      return `The decisions of ${underRule(a.rule)} block nobody ${when}. Every caller that is closed by ${a.rule ? "it" : "them"} gets through. Counting goes on.`;
    case "undo":
      return undoing(a.target);
  }
  return "";
}

function underRule(rule) {
  return rule ? `rule ${rule}` : "all rules";
}

function ruleState(a) {
  return (a.rules ?? []).find((r) => r.rule === a.rule);
}

function opens(a) {
  const closing = (a.rules ?? []).filter((r) => r.closure?.in_force && r.mode === "enforce" && (!a.rule || r.rule === a.rule));
  return closing.length > 0 ? `It is closed now by ${closing.map((r) => r.rule).join(", ")}, and opens at once.` : "What is closed opens at once.";
}

function before(a) {
  const r = ruleState(a);
  return r ? `, in place of ${r.limit.unlimited ? "no limit" : number(r.limit.limit)}` : "";
}

function fits(a) {
  const r = ruleState(a);
  if (!r || !a.limit) return "";
  const counted = `It has ${number(r.count)} in its window now`;
  return r.count >= a.limit ? `${counted}, so it is closed at once.` : `${counted}, so ${number(a.limit - r.count)} are left.`;
}

function undoing(target) {
  const what = { close: "is no longer closed by hand", open: "is held to its limits again", limit: "has its former limit again", mode: "blocks callers again" };
  const subject = target.who || (target.rule ? `Rule ${target.rule}` : "Every rule");
  return `The ${target.action} of ${target.author} ends now: ${subject} ${what[target.action] ?? "is as before"}. The record stays in the list, as undone.`;
}

// verbs are the words on the buttons.
export const verbs = { close: "Close", open: "Open", limit: "Set limit", reset: "Reset", mode: "Put into shadow mode", undo: "Undo" };

// past says of an answer what was done.
export function past(record, who) {
  const until = record.until ? ` until ${time(Date.parse(record.until))}` : "";
  const under = record.rule ? ` under ${record.rule}` : "";
  switch (record.action) {
    case "close": return `${who} is closed${until}.`;
    case "open": return `${who} is open${under}${until}.`;
    case "limit": return `${who} has a limit of ${number(record.limit)}${under}${until}.`;
    case "reset": return `${who} starts at nothing${under}.`;
    case "mode": return `${record.rule ? `Rule ${record.rule}` : "Every rule"} is in shadow mode${until}.`;
  }
  return "It is undone.";
}
