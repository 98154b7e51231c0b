// Ends as people write them: "90 s", "2 h 30 min", "18:00", "until 2026-12-24 18:00".

const units = { s: 1, sec: 1, second: 1, m: 60, min: 60, minute: 60, h: 3600, hour: 3600, d: 86400, day: 86400, w: 604800, week: 604800 }; // in seconds
const part = "(\\d+(?:\\.\\d+)?)\\s*([a-z]+)";
const duration = new RegExp(`^(?:${part}\\s*)+$`);

export const endExamples = "90 s, 2 h, 18:00 or 2026-12-24 18:00";

// endOf returns the moment that a text names, in milliseconds; 0 if it names none. Times without a zone are of the browser's zone, and a
// time of day is the next such time after now.
export function endOf(text, now) {
  const words = text.trim().toLowerCase().replace(/^(until|for)\s+/, "");
  if (duration.test(words)) {
    const seconds = [...words.matchAll(new RegExp(part, "g"))].map(([, n, unit]) => n * (units[unit] ?? units[unit.replace(/s$/, "")]));
    const sum = seconds.reduce((all, n) => all + n, 0);
    return sum > 0 ? now + sum * 1000 : 0;
  }
  const clock = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/.exec(words);
  if (clock) return nextClock(clock.slice(1).map((n) => Number(n ?? 0)), now);
  const day = /^(\d{4}-\d\d-\d\d)[t ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)\s*(z|utc|[+-]\d\d:?\d\d)?$/.exec(words);
  const at = day ? Date.parse(`${day[1]}T${day[2]}${(day[3] ?? "").replace("utc", "Z").toUpperCase()}`) : NaN;
  return at > now ? at : 0;
}

function nextClock([hour, minute, second], now) {
  if (hour > 23 || minute > 59 || second > 59) return 0;
  const at = new Date(now);
  at.setHours(hour, minute, second, 0);
  if (at <= now) at.setDate(at.getDate() + 1);
  return at.getTime();
}
