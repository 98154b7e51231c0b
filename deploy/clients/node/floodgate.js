'use strict';
// A gate of floodgate: it follows a feed (schemas/FEED.md), and knows from its own memory which callers are closed.
//
//	const gate = new Gate('unix:/run/floodgate/feed.sock').start(); // or new Gate('sidecar:9095', { key: '...' })
//	const verdict = gate.check([['ip', address('203.0.113.9')], ['key', identifier('abc')]]); // both of floodgate-web.js
//	if (verdict.closed) ...  // answer with status 429 and fields(verdict)
// An id has a byte in each character, as the header fields that Node reads.
const http = require('node:http');

const open = Object.freeze({ closed: false, shadow: false, stale: false });
const last = (a, b) => (b.until > a.until ? b : a);

class Gate {
  /** kinds: of callers it needs, or all. policy: what stale decisions do, hold, open or closed. maxHeld: at most so many decisions. */
  constructor(feed, { key, kinds = [], policy = 'hold', maxHeld = 1 << 20 } = {}) {
    if (!['hold', 'open', 'closed'].includes(policy)) throw new RangeError(`got policy ${policy}, want hold, open or closed`);
    Object.assign(this, { feed, key, kinds, policy, maxHeld, connected: false, dropped: 0, garbage: 0, error: '' });
    Object.assign(this, { held: new Map(), count: 0 }); // the decisions of a caller, by kind and id; how many there are
    this.unswept = this.held.keys(); // where the next sweep goes on
    this.generation = this.valid = 0; // how many starts came that did not resume; the first whose decisions count
    this.understood = this.cursor = null;
    Object.assign(this, { partitions: [], heard: 0 }); // their states; when a line came last
    Object.assign(this, { now: () => Date.now() / 1000, monotonic: () => performance.now() / 1000 });
  }

  /** The verdict on a request of these callers, each of them [kind, id]: { closed, shadow, stale, rule, retryAfter, limit, window }. */
  check(callers) {
    const hits = callers.map(([kind, id]) => this.held.get(`${kind} ${id}`)).filter(Boolean);
    const refuses = this.policy === 'closed' && this.stale().length > 0;
    for (const shadow of hits.length > 0 ? [false, true] : []) {
      const now = this.now();
      const { until, rule, limit, window } = hits.map((decisions) => this.judge(decisions, shadow, now)).reduce(last);
      if (until && !(shadow && refuses)) {
        return { closed: !shadow, shadow, stale: false, rule, retryAfter: Math.max(1, Math.ceil(until - now)), limit, window };
      }
    }
    return refuses ? { closed: true, shadow: false, stale: true, rule: '', retryAfter: 1 } : open;
  }

  /** The decision that keeps a caller closed for longest, and until when its gate is closed: 0 if it is open. */
  judge(decisions, shadow, now) {
    const ignored = this.policy === 'open' ? this.stale() : [];
    const valid = decisions.filter((d) => d.shadow === shadow && d.generation >= this.valid && !ignored.includes(d.partition));
    const spans = valid.flatMap((d) => d.spans.map((span) => ({ ...d, ...span })));
    const found = spans.filter((s) => s.from <= now && now < s.until).reduce(last, { until: 0 });
    let { until } = found;
    for (const s of until ? spans.sort((a, b) => a.from - b.from) : []) {
      if (s.from <= until && s.until > until) until = s.until; // it follows without a gap
    }
    return { ...found, until };
  }

  stale() {
    const silent = this.monotonic() - this.heard >= 3;
    return [...this.partitions.keys()].filter((p) => this.partitions[p] === 'stale' || (silent && this.partitions[p] === 'fresh'));
  }

  /** What people want to know. It looks at all that is held, so ask it now and then. */
  status() {
    const { connected, dropped, garbage, error } = this, held = [...this.held.values()].flat().filter((d) => this.counts(d)).length;
    return { connected, held, stale: this.stale(), dropped, garbage, error };
  }

  /** Follows the feed until close(). When its connection ends, or nothing comes for 3 s, it connects again, at most once a second. */
  start() {
    const began = this.monotonic();
    const [address, socketPath] = this.feed.split('unix:');
    const query = new URLSearchParams([...this.kinds.map((kind) => ['kind', kind]), ...(this.cursor ? [['since', this.cursor]] : [])]);
    const request = http.get(`http://${address || 'floodgate'}/v1/closed?${query}`, {
      socketPath, agent: false, timeout: 3000, headers: this.key ? { authorization: `Bearer ${this.key}` } : {},
    });
    const end = (error) => {
      request.destroy();
      if (this.request !== request) return;
      Object.assign(this, { request: null, connected: false, error: error?.message ?? this.error });
      this.timer = setTimeout(() => this.start(), Math.max(0, began + 1 - this.monotonic()) * 1000);
    };
    request.on('error', end).on('close', end).on('timeout', () => end(new Error('nothing came for 3 s')));
    request.on('response', (response) => {
      if (response.statusCode !== 200) return end(new Error(`the feed answered with status ${response.statusCode}`));
      let rest = '';
      Object.assign(this, { connected: true, understood: null });
      response.setEncoding('utf8').on('error', end).on('data', (text) => {
        const lines = (rest + text).split('\n');
        rest = lines.pop();
        lines.forEach((line) => this.take(line));
        if (this.understood === false || rest.length > 1 << 20) end(new Error('the feed has another version, or a line without an end'));
      });
    });
    this.request = request;
    return this;
  }

  close() {
    clearTimeout(this.timer);
    this.request?.destroy();
    this.request = null;
  }

  /** Takes a line of the feed. A line that cannot be read is counted, and changes nothing. */
  take(line) {
    this.heard = this.monotonic();
    try {
      const message = JSON.parse(line), { type } = message;
      if (typeof type !== 'string') throw new TypeError('got no type');
      if (type === 'start') this.understood = message.version === 1;
      if (!this.understood) return;
      if (type === 'start' && !message.resumed) Object.assign(this, { generation: this.generation + 1, cursor: null });
      if (type === 'decision') this.decide(message);
      if (type === 'current') this.valid = this.generation; // what came before counts no more, and is swept in time
      if (type === 'heartbeat') {
        this.partitions = (message.partitions ?? []).map(({ state }) => state);
        this.sweep(1000 + this.held.size / 100); // a few milliseconds
      }
      this.cursor = message.cursor ?? this.cursor;
    } catch (e) {
      Object.assign(this, { garbage: this.garbage + 1, error: `${e.message} in line ${line.slice(0, 80)}` });
    }
  }

  decide({ rule = '', kind, id, id_base64: base64, mode, spans = [], limit = 0, window = 0, partition = 0 }) {
    const caller = `${kind} ${(base64 ? Buffer.from(base64, 'base64') : Buffer.from(id, 'utf8')).toString('latin1')}`;
    const numbers = [window, limit, partition, ...spans.flatMap(({ from, until }) => [from, until, until - from])];
    if (!numbers.every((n) => typeof n === 'number' && n >= 0 && n < 1e15) || caller === `${kind} ` || typeof kind !== 'string' ||
      typeof rule !== 'string' || !['enforce', 'shadow'].includes(mode)) throw new TypeError('got a wrong member');
    const old = this.held.get(caller) ?? [], others = old.filter((d) => d.rule !== rule);
    if (spans.length > 0 && others.length === old.length && this.count >= this.maxHeld && !this.sweep(10)) this.dropped++;
    else this.replace(caller, [...others, { rule, shadow: mode === 'shadow', spans, limit, window, partition, generation: this.generation }]);
  }

  counts(d) { return d.generation >= this.valid && d.spans.some(({ until }) => until > this.now()); }

  replace(caller, decisions) {
    const kept = decisions.filter((d) => this.counts(d));
    this.count += kept.length - (this.held.get(caller) ?? []).length;
    if (kept.length > 0) this.held.set(caller, kept);
    else this.held.delete(caller);
  }

  sweep(callers) { // forgets what counts no more of so many callers, and reports whether there is room
    for (let n = Math.min(callers, this.held.size); n >= 0; n--) {
      const { value, done } = this.unswept.next();
      if (done) this.unswept = this.held.keys();
      else this.replace(value, this.held.get(value));
    }
    return this.count < this.maxHeld;
  }
}

module.exports = { Gate };
