// Small charts over the last 15 minutes, drawn by uPlot: a filled line over a scale that is said in words, as is the value under the pointer.

import { h, setText } from "./element.js";
import { clock } from "./format.js";
import { scaleOf } from "./scale.js";

const height = 64; // pixels

// Chart is one card: its name, its newest value in large figures, its highest value, and the line. Each of them is of one second. colour
// names a custom property of the style sheet. show writes a value as people read it. The newest value of a sparse chart may be an older one.
export class Chart {
  constructor({ id, name, unit = "", colour, show, sync, sparse = false }) {
    Object.assign(this, { name, unit, colour, show, sync, sparse });
    this.value = h("span", {}, "–");
    this.note = h("span", { class: "muted note" });
    this.scale = h("span", { class: "scale", "aria-hidden": "true" });
    this.canvas = h("div", { class: "plot", role: "img", "aria-label": name }, this.scale);
    this.element = h("section", { class: "panel card", "data-chart": id, "aria-label": name },
      h("div", { class: "card-head" }, h("h2", {}, name), this.note), h("p", { class: "figure" }, this.value, unit && h("small", {}, unit)), this.canvas);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.canvas);
    this.themes = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.rebuild();
    this.themes.addEventListener("change", this.redraw);
    this.data = [[], []];
  }

  stop() {
    this.watch.disconnect();
    this.themes.removeEventListener("change", this.redraw);
    this.plot?.destroy();
  }

  // update shows values of seconds: null is one in which nobody has counted, and leaves a gap; undefined is one without a value. covered
  // has the partitions that each second is of, out of all.
  update(times, values, covered, all) {
    Object.assign(this, { data: [times, values], covered, all });
    this.latest = this.sparse ? values.findLast((v) => v !== undefined && v !== null) : values.at(-1);
    this.highest = values.reduce((highest, v) => (v > (highest ?? -1) ? v : highest), undefined);
    Object.assign(this, scaleOf(values));
    if (this.plot) this.plot.setData(this.data);
    else this.rebuild();
    const scale = `0 – ${this.show(this.top)}${this.unit}${this.cut ? ", higher is cut off" : ""}`;
    setText(this.scale, scale);
    const now = this.sparse ? "the newest" : "now";
    this.canvas.setAttribute("aria-label", `${this.name}: ${this.show(this.latest)}${this.unit} ${now}, at most ${this.show(this.highest)}${this.unit} in 15 minutes; scale ${scale}`);
    this.say(this.plot?.cursor.idx ?? null);
  }

  // say writes the value at an index, or the newest one.
  say(index) {
    const [times, values] = this.data;
    const at = index ?? -1;
    setText(this.value, this.show(at >= 0 ? values[at] : this.latest));
    if (at >= 0) setText(this.note, clock(times[at] * 1000) + this.lacking(at));
    else setText(this.note, (this.highest ?? null) !== null ? `peak ${this.show(this.highest)}` : "");
  }

  // lacking says of how many partitions the value at an index is, if some were not counted then.
  lacking(at) {
    return this.covered[at] < this.all ? ` · ${this.covered[at]} of ${this.all}` : "";
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height });
    else if (!this.plot && this.data[0].length > 0) this.rebuild();
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = undefined;
    const width = this.canvas.clientWidth;
    if (!width) return;
    const style = getComputedStyle(document.documentElement);
    const colour = style.getPropertyValue(this.colour).trim();
    this.plot = new globalThis.uPlot({
      width, height, legend: { show: false }, axes: [{ show: false }, { show: false }], padding: [1, 0, 1, 0],
      cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 5 }, sync: { key: this.sync } },
      scales: { x: { time: true }, y: { range: () => [0, this.top] } },
      series: [{}, { stroke: colour, width: 1.5, fill: style.getPropertyValue(`${this.colour}-pale`).trim(), points: { show: this.sparse, size: 3, fill: colour } }],
      hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)] },
    }, this.data, this.canvas);
  }
}
