// The partitions: who owns each, what its owner does, and how far behind it is.

import { h, panel, setText, table } from "./element.js";
import { nanoseconds, number, span } from "./format.js";
import { now } from "./api.js";
import { csvButton, linesOf } from "./csv.js";
import { neverHeard } from "./banners.js";

// Partitions is the panel.
export class Partitions {
  constructor() {
    this.table = table("Partitions", ["#No.", "Owner", "State", "#Lag", "#Backlog", "#Offset", "#Closed", "Heard of"]);
    this.element = panel("Partitions", h("span", { class: "tools" }, csvButton("partitions", () => linesOf(this.table))));
    this.element.dataset.panel = "partitions";
    this.element.body.append(h("div", { class: "wide", tabindex: "0" }, this.table));
    this.rows = [];
  }

  // show draws the partitions of an answer of GET /v1/status.
  show(status) {
    const list = status.partitions;
    while (this.rows.length < list.length) {
      const cells = Array.from({ length: 8 }, (_, i) => h("td", { class: [0, 3, 4, 5, 6].includes(i) ? "number" : "" }));
      const state = h("span", { class: "state" });
      cells[2].append(state);
      this.rows.push({ cells, state, element: this.table.label(h("tr", {}, cells)) });
      this.table.body.append(this.rows.at(-1).element);
    }
    while (this.rows.length > list.length) this.rows.pop().element.remove();
    list.forEach((p, i) => fill(this.rows[i], p));
  }
}

function fill({ cells, state, element }, p) {
  const never = neverHeard(p);
  const word = never ? "no owner" : p.state === "kafka-away" ? "Kafka away" : p.stale ? "stale" : p.state;
  element.dataset.partition = p.partition;
  setText(cells[0], String(p.partition));
  setText(cells[1], p.api || (p.here ? "this analyzer" : never ? "–" : "not known"));
  setText(state, word);
  state.dataset.level = never || p.stale ? "bad" : p.state === "running" ? "good" : "warn";
  setText(cells[3], p.lag_ns ? nanoseconds(p.lag_ns) : "–");
  setText(cells[4], p.backlog ? `${number(p.backlog)}, ${span((p.behind_ns ?? 0) / 1e6)} behind` : p.stale ? "–" : "0");
  setText(cells[5], number(p.offset ?? null));
  setText(cells[6], p.here ? number(p.closed ?? 0) : "–");
  const age = never ? null : now() - Date.parse(p.heartbeat);
  setText(cells[7], age === null ? "never" : age < 3000 ? "now" : `${span(age)} ago`);
}
