// The samples of the last 15 minutes. All of them are asked for once, and then only the newest.

const kept = 900; // samples, of one second each
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
        lag: answer.lag_ns[i] || undefined,
        overshoot: answer.ended[i] > 0 ? answer.overshoot[i] : undefined,
      });
    });
    this.newest = from + answer.covered.length - 1;
    for (const second of this.bySecond.keys()) if (second <= this.newest - kept) this.bySecond.delete(second);
  }

  // columns returns the seconds that are complete, and two functions of them: values(name) has the value of each second, and
  // covered how many partitions each second is of. A value is null if no analyzer has counted, so that nobody knows it. It is undefined if
  // analyzers have counted, and there was nothing of which to take a lag or an overshoot.
  columns() {
    const end = this.end();
    const times = Array.from({ length: kept }, (_, i) => end - kept + i);
    const at = times.map((second) => this.bySecond.get(second)).map((sample) => (sample?.covered > 0 ? sample : null));
    return { times, covered: at.map((sample) => sample?.covered ?? 0), values: (name) => at.map((sample) => sample && sample[name]) };
  }

  // end returns the second behind the newest one that is complete. Analyzers whose clocks are behind have not counted in the seconds
  // after it yet. A partition that is silent for longer than the overlap is not waited for.
  end() {
    const newest = Array.from({ length: overlap }, (_, i) => this.newest - i);
    const covered = newest.map((second) => this.bySecond.get(second)?.covered ?? 0);
    return newest[covered.indexOf(Math.max(...covered))] + 1;
  }
}
