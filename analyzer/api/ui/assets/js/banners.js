// The lines above the page: what is wrong with the answers below them, and what people should not forget.

import { h } from "./element.js";
import { known, plural, span } from "./format.js";
import { now } from "./api.js";

// bannersOf returns what is to be said, worst first: {id, level, text}.
export function bannersOf(status, error, rules, connection) {
  const list = [];
  const add = (id, level, text) => list.push({ id, level, text });
  if (connection.state === "refused") add("refused", "bad", `The stream of decisions is refused: ${connection.why}.`);
  if (error) add("unanswered", "bad", `No news of the analyzers: ${error.sentence}. What you see is old.`);
  if (!status) return list;
  ofPartitions(status, add);
  if (!status.board.ready) add("board", "warn", "This analyzer is still reading the decisions in force: some closures are missing below.");
  if (status.board.incomplete?.length > 0) add("incomplete", "warn", `Decisions of ${partitions(status.board.incomplete)} may be missing below.`);
  if (!status.rules_agree) add("rules", "warn", "The analyzers count by different rules. See Rules.");
  if (status.rules.refused) add("refused-rules", "bad", `The newest rules file is not in use: ${status.rules.refused}`);
  if (status.tokens_refused) add("tokens", "bad", `The newest file of tokens is not in use: ${status.tokens_refused}`);
  ofShadow(rules, add);
  return list;
}

function ofPartitions(status, add) {
  const none = status.partitions.filter((p) => neverHeard(p));
  const stale = status.partitions.filter((p) => p.stale && !none.includes(p));
  if (none.length > 0) add("none", "bad", `No analyzer counts ${partitions(none.map((p) => p.partition))}.`);
  if (stale.length > 0) {
    const since = Math.min(...stale.map((p) => Date.parse(p.heartbeat)));
    add("stale", "bad", `Stale: nothing was heard of ${partitions(stale.map((p) => p.partition))} for ${span(now() - since)}. New callers are not closed there.`);
  }
  const memory = status.partitions.filter((p) => p.state === "memory-only");
  if (memory.length > 0) add("memory", "warn", `Memory only: ${partitions(memory.map((p) => p.partition))} cannot write to the disk. Counting goes on.`);
}

function ofShadow(rules, add) {
  const shadow = (rules?.rules ?? []).filter((rule) => rule.mode === "shadow");
  if (shadow.length > 0) add("shadow", "note", `Shadow mode, blocks nobody: ${shadow.map((rule) => rule.name).join(", ")}.`);
}

function partitions(list) {
  return list.length > 6 ? plural(list.length, "partition") : `partition${list.length === 1 ? "" : "s"} ${list.join(", ")}`;
}

// drawBanners writes them into an element, and leaves those alone that say the same.
export function drawBanners(element, list) {
  const text = JSON.stringify(list);
  if (element.said === text) return;
  element.said = text;
  const words = { bad: "Problem", warn: "Warning", note: "Note" };
  element.replaceChildren(...list.map((b) => h("p", { class: `banner ${b.level}`, "data-banner": b.id }, h("strong", {}, words[b.level]), ` ${b.text}`)));
}

// neverHeard reports whether no owner of a partition is known.
export function neverHeard(p) {
  return p.state === "none" || !known(Date.parse(p.heartbeat));
}
