// The scale of a small chart: from 0 to a round number, which one high value does not decide.

const leftOut = 0.02; // of the values: the highest of them may be cut off, if they are far above all others
const far = 4; // times as high as the others
const fewest = 10; // values that make "the others"

// scaleOf returns where a chart of these values ends, and whether values above it are cut off. null and undefined are no values.
export function scaleOf(values) {
  const sorted = values.filter((v) => v > 0).sort((a, b) => a - b);
  if (sorted.length === 0) return { top: 1, cut: false };
  const highest = sorted.at(-1);
  const usual = sorted[Math.floor((sorted.length - 1) * (1 - leftOut))];
  const cut = sorted.length >= fewest && highest > far * usual;
  return { top: roundUp(cut ? 2 * usual : highest), cut };
}

// roundUp returns the next of 1, 2, 5, 10, 20, 50, …
function roundUp(value) {
  const ten = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find((n) => n * ten >= value * (1 - 1e-9)) ?? 10) * ten;
}
