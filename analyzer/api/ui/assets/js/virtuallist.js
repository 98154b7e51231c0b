// A list of which only the rows that can be seen are elements, so that 100,000 lines scroll as 10 do.

import { h } from "./element.js";

const spare = 6; // rows beyond each edge

// VirtualList draws items into an element of its own. make returns a row's element, and fill(element, item) writes an item into it.
// Items are objects with a key. onOpen(item) is called for Enter and for a click on a row that hits no link.
export class VirtualList {
  constructor({ name, columns, make, fill, onOpen }) {
    Object.assign(this, { make, fill, onOpen });
    this.items = [];
    this.pool = [];
    this.selected = null; // a key
    this.sizer = h("div", { class: "sizer", role: "rowgroup" });
    this.head = h("div", { class: "row head", role: "row", "aria-rowindex": "1" },
      columns.map((title) => h("span", { role: "columnheader" }, title)));
    this.scroller = h("div", { class: "scroller", role: "presentation" }, h("div", { role: "rowgroup", class: "sticky" }, this.head), this.sizer);
    this.element = h("div", { class: "virtual", role: "grid", tabindex: "0", "aria-label": name, "aria-rowcount": "1" }, this.scroller);
    this.scroller.addEventListener("scroll", () => this.soon(), { passive: true });
    this.element.addEventListener("click", (event) => this.clicked(event));
    this.element.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.move(by);
    });
    this.resized = new ResizeObserver(() => this.soon());
    this.resized.observe(this.scroller);
  }

  stop() {
    this.resized.disconnect();
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  // update shows these items. What a person looks at stays where it is, when lines come above it.
  update(items) {
    const anchor = this.scroller.scrollTop > 0 ? this.items[this.first()] : null;
    const before = this.first();
    this.items = items;
    this.element.setAttribute("aria-rowcount", String(items.length + 1));
    this.measure();
    this.sizer.style.height = `${items.length * this.rowHeight}px`;
    if (anchor) {
      const at = items.indexOf(anchor);
      if (at >= 0 && at !== before) this.scroller.scrollTop += (at - before) * this.rowHeight;
    }
    this.draw();
  }

  measure() {
    this.rowHeight = parseFloat(getComputedStyle(this.element).getPropertyValue("--row-height")) || 36;
  }

  first() {
    return Math.floor(this.scroller.scrollTop / (this.rowHeight || 36));
  }

  // draw writes the rows that can be seen.
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = undefined;
    this.measure();
    this.sizer.style.height = `${this.items.length * this.rowHeight}px`;
    const from = Math.max(0, this.first() - spare);
    const to = Math.min(this.items.length, this.first() + Math.ceil(this.scroller.clientHeight / this.rowHeight) + spare);
    while (this.pool.length < to - from) this.pool.push(this.sizer.appendChild(this.make()));
    for (let i = 0; i < this.pool.length; i++) {
      const row = this.pool[i];
      row.hidden = i >= to - from;
      if (!row.hidden) this.write(row, from + i);
    }
    this.markActive();
  }

  write(row, index) {
    const item = this.items[index];
    const top = `translateY(${index * this.rowHeight}px)`;
    if (row.style.transform !== top) row.style.transform = top;
    row.item = item;
    row.id = `row-${index}`;
    row.setAttribute("aria-rowindex", String(index + 2));
    row.setAttribute("aria-selected", String(item.key === this.selected));
    this.fill(row, item);
  }

  markActive() {
    const row = this.pool.find((r) => !r.hidden && r.item?.key === this.selected);
    if (row) this.element.setAttribute("aria-activedescendant", row.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  // current returns the selected item, or undefined.
  current() {
    return this.selected === null ? undefined : this.items.find((item) => item.key === this.selected);
  }

  // move selects the line that is so many lines further, and scrolls to it.
  move(by) {
    if (this.items.length === 0) return;
    const at = this.items.findIndex((item) => item.key === this.selected);
    const next = at < 0 ? 0 : Math.min(this.items.length - 1, Math.max(0, at + by));
    this.selected = this.items[next].key;
    const top = next * this.rowHeight;
    const height = this.scroller.clientHeight - this.head.offsetHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + this.rowHeight > this.scroller.scrollTop + height) this.scroller.scrollTop = top + this.rowHeight - height;
    this.draw();
  }

  clicked(event) {
    const row = event.target.closest("[role=row]");
    if (!row?.item || event.target.closest("a, button")) return;
    this.selected = row.item.key;
    this.draw();
    this.onOpen(row.item);
  }
}
