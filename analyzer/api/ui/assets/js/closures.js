// What is closed now, as the stream of decisions says. It holds 100,000 closures and more, so it keeps of each only what lists show.

import { encoded, label } from "./callerid.js";
import { now } from "./api.js";

const lingers = 2000; // an ended closure stays in lists for so many milliseconds, so that one that comes again keeps its place
const keptChanges = 500;

// Closures is the model. It sends the event "change" after each list of events that changed something; the event's detail is the set of
// callers, percent-encoded, that it was about. complete says whether all that is in force is known.
export class Closures extends EventTarget {
  constructor() {
    super();
    this.byKey = new Map();
    this.order = []; // as they were learnt of; some may be removed already
    this.removed = 0;
    this.generation = 0;
    this.complete = false;
    this.recent = []; // the newest changes, the newest first
    this.rules = new Set(); // that have closed somebody since the page was opened
  }

  // apply takes events of the stream.
  apply(events) {
    const callers = new Set();
    for (const event of events) {
      switch (event.kind) {
        case "begin":
        case "lost":
          this.generation++;
          break;
        case "current":
          this.sweep();
          break;
        case "opened":
        case "ended":
          this.end(event, callers);
          break;
        default:
          if (event.decision) this.put(event, callers);
      }
    }
    this.clean();
    this.dispatchEvent(new CustomEvent("change", { detail: callers }));
  }

  put(event, callers) {
    const d = event.decision;
    const id = encoded(d.caller);
    const key = `${d.rule} ${id}`;
    let c = this.byKey.get(key);
    if (!c) {
      c = { key, id, rule: d.rule, caller: d.caller, label: label(d.caller) };
      this.byKey.set(key, c);
      this.rules.add(d.rule);
      this.order.push(c);
    }
    Object.assign(c, {
      mode: d.mode, closeAt: Date.parse(d.close_at), until: Date.parse(d.until), early: d.early === true, shared: d.shared === true, hold: d.hold,
      count: d.count, limit: d.limit, windowNs: d.window_ns, endedAt: 0, generation: this.generation,
    });
    if (event.kind !== "in_force") this.note(event, c);
    callers.add(id);
  }

  end(event, callers) {
    const id = encoded(event.decision.caller);
    const c = this.byKey.get(`${event.decision.rule} ${id}`);
    if (c) c.endedAt = now();
    this.note(event, c ?? { id, rule: event.decision.rule, mode: event.decision.mode, until: Date.parse(event.decision.until) });
    callers.add(id);
  }

  note(event, c) {
    this.recent.unshift({ kind: event.kind, at: Date.parse(event.at), id: c.id, rule: c.rule, mode: c.mode, until: c.until, early: c.early, held: Boolean(c.hold) });
    if (this.recent.length > keptChanges) this.recent.length = keptChanges;
  }

  // sweep removes what was in force before the connection was lost, and is not any more.
  sweep() {
    for (const c of this.byKey.values()) if (c.generation !== this.generation) this.remove(c);
    this.complete = true;
  }

  remove(c) {
    this.byKey.delete(c.key);
    c.gone = true;
    this.removed++;
  }

  // clean removes what has ended some time ago. It looks at all closures once a second at most.
  clean() {
    const at = now();
    if (at < (this.cleaned ?? 0) + 1000) return;
    this.cleaned = at;
    for (const c of this.byKey.values()) if ((c.endedAt || c.until + 3000) < at - lingers) this.remove(c);
    if (this.removed > 1000 && this.removed > this.order.length / 4) this.compact();
  }

  compact() {
    this.order = this.order.filter((c) => !c.gone);
    this.removed = 0;
  }

  // list returns the closures whose caller or rule has this text in it, the newest first; with a rule, those of this rule alone. Shares
  // close nobody and are not in it.
  list(text = "", rule = "") {
    const found = [];
    const wanted = text.toLowerCase();
    for (let i = this.order.length - 1; i >= 0; i--) {
      const c = this.order[i];
      if (c.gone || (c.shared && !c.early) || (rule && c.rule !== rule)) continue;
      if (!wanted || c.label.toLowerCase().includes(wanted) || c.rule.toLowerCase().includes(wanted)) found.push(c);
    }
    return found;
  }

  // of returns the closures of one caller, percent-encoded, and changes its newest changes.
  of(id) {
    const found = [];
    for (const c of this.byKey.values()) if (c.id === id) found.push(c);
    return found;
  }

  changes(id) {
    return this.recent.filter((change) => change.id === id);
  }
}
