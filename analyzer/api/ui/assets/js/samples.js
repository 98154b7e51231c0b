// The samples of the last 15 minutes. All of them are asked for once, and then only the newest.

const kept = 900; // samples, of one second each
const step = 5; // seconds of one point of a chart
const names = ["requests", "blocked", "would_block", "closes", "lag", "overshoot"];
const overlap = 5; // samples that are asked for again, because another analyzer may have added to them

// Samples joins answers of GET /v1/series. The key of a sample is the second at which it begins, in Unix seconds.
export class Samples {
  constructor() {
    this.bySecond = new Map();
    this.newest = 0;
  }

  // wanted returns how many samples to ask for at a time in milliseconds.
  wanted(at) {
    const behind = Math.ceil(at / 1000) - this.newest + overlap;
    return this.newest === 0 || behind > kept ? kept : Math.max(1, behind);
  }

  add(answer) {
    const from = Math.round(Date.parse(answer.from) / 1000);
    answer.covered.forEach((covered, i) => {
      this.bySecond.set(from + i, {
        covered,
        requests: answer.requests[i],
        blocked: answer.blocked[i],
        would_block: answer.would_block[i],
        closes: answer.closes[i],
        lag: answer.lag_ns[i] || null,
        overshoot: answer.ended[i] > 0 ? answer.overshoot[i] : null,
      });
    });
    this.newest = from + answer.covered.length - 1;
    for (const second of this.bySecond.keys()) if (second <= this.newest - kept) this.bySecond.delete(second);
  }

  // columns returns a list of times in seconds, and one list of values for each name: the mean of the samples from that time until
  // the next. A value is null if no analyzer has counted any.
  columns() {
    const columns = { times: [] };
    for (const name of names) columns[name] = [];
    const end = this.end();
    for (let from = Math.ceil((end - kept) / step) * step; from < end; from += step) {
      columns.times.push(from);
      for (const name of names) columns[name].push(this.mean(name, from, Math.min(end, from + step)));
    }
    return columns;
  }

  mean(name, from, end) {
    let sum = 0;
    let n = 0;
    for (let second = from; second < end; second++) {
      const sample = this.bySecond.get(second);
      if (!sample || sample.covered === 0 || sample[name] === null) continue;
      sum += sample[name];
      n++;
    }
    return n > 0 ? sum / n : null;
  }

  // latest returns the newest value of a name. Of a sparse one it is the newest that there is, otherwise that of the newest second.
  latest(name, sparse) {
    for (let second = this.end() - 1; second > this.newest - (sparse ? kept : 5); second--) {
      const value = this.bySecond.get(second)?.[name] ?? null;
      if (value !== null && this.bySecond.get(second).covered > 0) return value;
    }
    return null;
  }

  // end returns the second behind the newest sample to which all analyzers have added.
  end() {
    return this.isWhole(this.newest) ? this.newest + 1 : this.newest;
  }

  isWhole(second) {
    return (this.bySecond.get(second)?.covered ?? 0) >= (this.bySecond.get(second - 1)?.covered ?? 0);
  }
}
