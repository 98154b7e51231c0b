// Numbers, times and texts as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const longName = 60; // characters
const zonedTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });

// number writes 12345 as 12,345, and numbers under 10 with one decimal.
export function number(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  return Math.abs(n) < 10 && !Number.isInteger(n) ? tenths.format(n) : whole.format(n);
}

// percent writes a share: 0.5 is 50 %.
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  return share > 99.99 ? "> 9,999 %" : `${share > 0 && share < 0.1 ? tenths.format(share * 100) : whole.format(share * 100)} %`;
}

// nanoseconds writes a short duration, such as a lag.
export function nanoseconds(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "–";
  if (ns < 1e6) return `${whole.format(ns / 1e3)} µs`;
  if (ns < 1e9) return `${ns < 1e7 ? tenths.format(ns / 1e6) : whole.format(ns / 1e6)} ms`;
  return `${tenths.format(ns / 1e9)} s`;
}

// span writes a duration of milliseconds in at most two units: 90 s is 1 min 30 s. A part of a second counts as a second.
export function span(ms) {
  let rest = Math.max(0, Math.ceil(ms / 1000));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0 || (unit === "s" && parts.length === 0)) parts.push(`${n} ${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

// time writes a moment by the browser's zone, and names the zone: the time of day within 20 hours of now, otherwise the day too.
export function time(ms, now = Date.now()) {
  if (!known(ms)) return "–";
  return (Math.abs(ms - now) < 20 * 3600e3 ? zonedTime : dayAndTime).format(ms);
}

// clock writes a time of day where the zone is said nearby.
export function clock(ms) {
  return clockTime.format(ms);
}

// zone returns the name of the browser's zone, as time writes it now.
export function zone() {
  return zonedTime.formatToParts().find((part) => part.type === "timeZoneName").value;
}

// utc writes a moment as logs and the API have it.
export function utc(ms) {
  return known(ms) ? new Date(ms).toISOString() : "";
}

// sentenceHere writes a sentence of the API about a caller for this page: times by the browser's zone, as everywhere on the page, and a
// name that fills lines as "This caller", since it stands above. name is how the API begins the sentence.
export function sentenceHere(sentence, name) {
  const named = sentence.startsWith(name);
  const rest = (named ? sentence.slice(name.length) : sentence).replace(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, (moment) => time(Date.parse(moment)));
  return (named ? (name.length > longName ? "This caller" : name) : "") + rest;
}

// known reports whether a time of the API, in milliseconds, is not Go's zero time or missing.
export function known(ms) {
  return Number.isFinite(ms) && ms > -6e13;
}

// printable returns text of strangers so that it can mislead nobody: control characters, and those that change the direction of
// text or that nobody sees, are written as escapes.
export function printable(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// plural writes "1 caller", "2 callers".
export function plural(n, noun) {
  return `${whole.format(n)} ${noun}${n === 1 ? "" : "s"}`;
}
