// Small charts over the last 15 minutes, drawn by uPlot: a filled line, without axes. The value under the pointer is said in words.

import { h, setText } from "./element.js";
import { time } from "./format.js";

const height = 56; // pixels

// Chart is one card: its name, its newest value in large figures, its peak, and the line. colour names a custom property of the style sheet.
// show writes a value as people read it. Of a sparse chart, moments without a value are passed over.
export class Chart {
  constructor({ id, name, unit = "", colour, show, sync, sparse = false }) {
    Object.assign(this, { name, unit, colour, show, sync, sparse });
    this.value = h("span", {}, "–");
    this.note = h("span", { class: "muted note" });
    this.canvas = h("div", { class: "plot", role: "img", "aria-label": name });
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

  // update shows values at times, in seconds, and the newest one in figures; null is a moment without one.
  update(times, values, latest) {
    this.data = [times, values];
    this.latest = latest;
    if (this.plot) this.plot.setData(this.data);
    else this.rebuild();
    let highest = null;
    for (const v of values) if (v !== null && (highest === null || v > highest)) highest = v;
    this.canvas.setAttribute("aria-label", `${this.name}: ${this.show(latest)}${this.unit} now, at most ${this.show(highest)}${this.unit} in 15 minutes`);
    this.highest = highest;
    this.say(this.plot?.cursor.idx ?? null);
  }

  // say writes the value at an index, or the newest one.
  say(index) {
    const [times, values] = this.data;
    const at = index ?? -1;
    setText(this.value, this.show(at >= 0 ? values[at] : this.latest));
    if (at >= 0) setText(this.note, time(times[at] * 1000));
    else setText(this.note, (this.highest ?? null) !== null ? `peak ${this.show(this.highest)}` : "");
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
      width, height, legend: { show: false }, axes: [{ show: false }, { show: false }], padding: [4, 0, 0, 0],
      cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 5 }, sync: { key: this.sync } },
      scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
      series: [{}, { stroke: colour, width: 1.5, fill: style.getPropertyValue(`${this.colour}-pale`).trim(), points: { show: false }, spanGaps: this.sparse }],
      hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)] },
    }, this.data, this.canvas);
  }
}
