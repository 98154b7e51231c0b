// A window drawn slot by slot: a bar for the weight of each slot, the sum of all slots so far as a step, and the limit as a line.

import { h, svg } from "./element.js";
import { known, number, time } from "./format.js";

const width = 640;
const height = 150;
const top = 18;
const bottom = 20;

// drawWindow returns the picture of a rule's window, or null if it has nothing to draw: no weight, or one slot. rule is a rule of explain's answer.
export function drawWindow(rule, at) {
  const parts = (rule.parts ?? []).filter((part) => part.weight > 0);
  if (parts.length === 0 || Date.parse(parts[0].until) - Date.parse(parts[0].from) >= rule.window_ns / 1e6) return null;
  const from = begin(rule, parts, at);
  const until = Math.max(at, ...parts.map((part) => Date.parse(part.until)));
  const capacity = rule.limit.unlimited ? 0 : rule.limit.capacity;
  const sum = parts.reduce((total, part) => total + part.weight, 0);
  const highest = Math.max(sum, capacity < sum * 50 ? capacity : 0, 1) * 1.06;
  const x = (t) => ((Math.min(Math.max(t, from), until) - from) / Math.max(1, until - from)) * width;
  const y = (weight) => height - bottom - (weight / highest) * (height - top - bottom);
  const picture = svg("svg", { class: "window", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": words(rule, parts, sum) });
  picture.append(svg("path", { class: "sum", d: sumPath(parts, x, y) }));
  for (const part of parts) picture.append(bar(part, x, y));
  picture.append(svg("line", { class: "ground", x1: 0, x2: width, y1: y(0), y2: y(0) }));
  const labels = [label("from", time(from)), label("until", time(until))];
  if (capacity > 0 && capacity <= highest) {
    picture.append(svg("line", { class: "limit", x1: 0, x2: width, y1: y(capacity), y2: y(capacity) }));
    const line = label("limit-label", `limit ${number(capacity)}`);
    line.style.top = `${(y(capacity) / height) * 100}%`;
    labels.push(line);
  }
  return h("figure", { class: "window-figure" }, picture, labels, rule.more_parts ? h("figcaption", { class: "muted small" }, `${number(rule.more_parts)} older slots are not drawn; the sum begins without them.`) : null);
}

// begin is where the window begins, or its oldest slot: a window of a year with all its weight in one day shows that day.
function begin(rule, parts, at) {
  const oldest = Math.min(...parts.map((part) => Date.parse(part.from)));
  const window = Date.parse(rule.window_from);
  if (!known(window) || rule.more_parts) return oldest;
  return Math.min(window, oldest) < at - 1e11 ? oldest : Math.min(window, oldest);
}

function label(name, text) {
  return h("span", { class: `label ${name}`, "aria-hidden": "true" }, text);
}

function sumPath(parts, x, y) {
  let sum = 0;
  let path = `M0 ${y(0)}`;
  for (const part of parts) {
    const left = x(Date.parse(part.from));
    path += `L${left} ${y(sum)}`;
    sum += part.weight;
    path += `L${left} ${y(sum)}`;
  }
  return `${path}L${width} ${y(sum)}L${width} ${y(0)}Z`;
}

function bar(part, x, y) {
  const left = x(Date.parse(part.from));
  const wide = Math.max(2, x(Date.parse(part.until)) - left - 1);
  const words = `${number(part.weight)} from ${time(Date.parse(part.from))}, leaves the window at ${time(Date.parse(part.leaves))}`;
  return svg("rect", { class: "slot", x: left, width: wide, y: y(part.weight), height: Math.max(1, y(0) - y(part.weight)) }, svg("title", {}, words));
}

function words(rule, parts, sum) {
  const largest = Math.max(...parts.map((part) => part.weight));
  const limit = rule.limit.unlimited ? "without a limit" : `of a limit of ${number(rule.limit.limit)}`;
  return `Window of rule ${rule.rule}: ${number(sum)} ${limit}, in ${parts.length} slots, at most ${number(largest)} in one`;
}
