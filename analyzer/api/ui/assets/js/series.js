// The six charts of the overview: what all analyzers have counted in each second of the last 15 minutes.

import { h, setText } from "./element.js";
import { get, now } from "./api.js";
import { poll } from "./poll.js";
import { nanoseconds, number, percent, zone } from "./format.js";
import { Chart } from "./chart.js";
import { Samples } from "./samples.js";

const every = 1000; // milliseconds

const charts = [
  { id: "requests", name: "Requests", unit: "/s", colour: "--blue", show: number },
  { id: "blocked", name: "Blocked", unit: "/s", colour: "--red", show: number },
  { id: "would_block", name: "Would block", unit: "/s", colour: "--amber", show: number },
  { id: "closes", name: "Closes", unit: "/s", colour: "--violet", show: number },
  { id: "lag", name: "Lag", colour: "--green", show: nanoseconds },
  { id: "overshoot", name: "Overshoot", colour: "--teal", show: percent, sparse: true },
];

// Series is the row of charts.
export class Series {
  constructor() {
    this.charts = charts.map((chart) => new Chart({ ...chart, sync: "overview" }));
    this.samples = new Samples();
    this.missing = h("p", { class: "muted small", hidden: true });
    this.element = h("div", { class: "charts-block" }, h("div", { class: "charts" }, this.charts.map((chart) => chart.element)),
      h("p", { class: "muted small" }, `The last 15 minutes, second by second, in ${zone()}. A gap is a time in which no analyzer has counted.`), this.missing);
  }

  run(signal) {
    signal.addEventListener("abort", () => this.charts.forEach((chart) => chart.stop()));
    return poll(() => this.ask(signal), every, signal);
  }

  async ask(signal) {
    let answer;
    try {
      answer = await get("series", { seconds: this.samples.wanted(now()) }, signal);
    } catch (error) {
      if (!signal.aborted) this.say(`The charts are old: ${error.sentence}.`);
      return;
    }
    if (signal.aborted) return;
    this.show(answer);
  }

  show(answer) {
    this.samples.add(answer);
    const { times, covered, values } = this.samples.columns();
    this.charts.forEach((chart, i) => chart.update(times, values(charts[i].id), covered, answer.partitions));
    const missing = answer.missing ?? [];
    this.say(missing.length > 0 ? `Without partitions ${missing.join(", ")}, whose owners have not answered.` : "");
  }

  say(text) {
    this.missing.hidden = text === "";
    setText(this.missing, text);
  }
}
