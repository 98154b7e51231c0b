// The first page: how much comes, who is closed, who is busy, and what the analyzers do.

import { h } from "./element.js";
import { Series } from "./series.js";
import { ClosedList } from "./closedlist.js";
import { Busiest } from "./busiest.js";
import { Partitions } from "./partitions.js";
import { address } from "./callerid.js";

// overview returns the page: {title, element, keys, find}.
export function overview({ closures, status, actOn, signal }) {
  const series = new Series();
  const busiest = new Busiest();
  const partitions = new Partitions();
  const open = (item) => { location.hash = address(item.caller); };
  const closed = new ClosedList(closures, open);
  const element = h("div", { class: "page overview" }, h("h1", { class: "unseen", tabindex: "-1" }, "Overview"),
    series.element, h("div", { class: "columns" }, h("div", { class: "column" }, closed.element, partitions.element), busiest.element));
  const drawStatus = () => status.value && partitions.show(status.value);
  status.addEventListener("change", drawStatus, { signal });
  drawStatus();
  return {
    title: "Overview",
    element,
    find: (text) => closed.find(text),
    start() {
      closed.run(signal);
      series.run(signal);
      busiest.run(signal);
    },
    keys: {
      next: () => closed.list.move(1),
      previous: () => closed.list.move(-1),
      enter: () => (closed.list.current() ? open(closed.list.current()) : false),
      close: () => actOn("close", closed.list.current()?.caller),
      open: () => actOn("open", closed.list.current()?.caller),
    },
  };
}
