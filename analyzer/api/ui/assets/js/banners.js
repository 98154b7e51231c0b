// The lines above the page: what is wrong with the answers below them, and what people should not forget.

import { h } from "./element.js";
import { known, plural, span, time } from "./format.js";
import { now } from "./api.js";

// bannersOf returns what is to be said, worst first: {id, level, text}. undo of a banner is a record that a person may undo there.
export function bannersOf(status, error, connection) {
  const list = [];
  const add = (id, level, text, undo) => list.push({ id, level, text, undo });
  if (connection.state === "refused") add("refused", "bad", `The stream of decisions is refused: ${connection.why}.`);
  if (error) add("unanswered", "bad", `No news of the analyzers: ${error.sentence}. What you see is old.`);
  if (!status) return list;
  ofBrakes(status, add);
  ofKafka(status.kafka, add);
  if (status.kafka.reachable) ofPartitions(status, add);
  if (!status.board.ready) add("board", "warn", "This analyzer is still reading the decisions in force: some closures are missing below.");
  if (status.board.incomplete?.length > 0) add("incomplete", "warn", `Decisions of ${partitions(status.board.incomplete)} may be missing below.`);
  if (!status.rules_agree) add("rules", "warn", "The analyzers count by different rules. See Rules.");
  if (status.rules.refused) add("refused-rules", "bad", `The newest rules file is not in use: ${status.rules.refused}`);
  if (status.tokens_refused) add("tokens", "bad", `The newest file of tokens is not in use: ${status.tokens_refused}`);
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

function ofKafka(kafka, add) {
  if (kafka.reachable) return;
  add("kafka", "bad", `Kafka is away: no broker of ${kafka.brokers.join(", ")} has answered for ${span(now() - Date.parse(kafka.since))}. Nothing is counted, and no decision reaches a gate.`);
}

// ofBrakes says what people have put into shadow mode. A rule that is in shadow by its file needs no banner: nobody has forgotten it.
function ofBrakes(status, add) {
  for (const brake of status.brakes) {
    const enforced = status.rules.modes.filter((m) => m.file !== m.effective && (!brake.rule || brake.rule === m.rule)).map((m) => m.rule);
    const what = brake.rule ? `the rule ${brake.rule}` : "all rules";
    const file = enforced.length > 0 ? `The file would enforce ${enforced.join(", ")}.` : "";
    const late = brake.state === "waiting" ? "Not all analyzers have applied it yet." : "";
    add(`brake-${brake.id}`, "bad", [`${brake.author} put ${what} into shadow mode ${span(now() - Date.parse(brake.time))} ago (${brake.reason}): nobody is refused until ${time(Date.parse(brake.until))}.`, file, late].filter(Boolean).join(" "), brake);
  }
}

function partitions(list) {
  return list.length > 6 ? plural(list.length, "partition") : `partition${list.length === 1 ? "" : "s"} ${list.join(", ")}`;
}

// drawBanners writes them into an element, and leaves those alone that say the same. undo, if there is one, is called with the record of a
// banner whose button was pressed.
export function drawBanners(element, list, undo) {
  const text = JSON.stringify([list, Boolean(undo)]);
  if (element.said === text) return;
  element.said = text;
  const words = { bad: "Problem", warn: "Warning" };
  element.replaceChildren(...list.map((b) => h("p", { class: `banner ${b.level}`, "data-banner": b.id }, h("strong", {}, b.undo ? "Brake" : words[b.level]), ` ${b.text} `,
    b.undo && undo && h("button", { type: "button", class: "small", onclick: () => undo(b.undo) }, "Undo…"))));
}

// neverHeard reports whether no owner of a partition is known.
export function neverHeard(p) {
  return p.state === "none" || !known(Date.parse(p.heartbeat));
}
