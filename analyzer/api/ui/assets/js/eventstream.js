// The stream of decisions: fetch with a reader, because an EventSource cannot send the header Authorization.

import { address, headers, Problem } from "./api.js";
import { pause } from "./poll.js";

const silence = 25_000; // without a byte for so many milliseconds the connection counts as lost; the server speaks every 10 s
const firstWait = 500;
const longestWait = 15_000;
const hiddenFor = 20_000; // a page that nobody has seen for so long gives its connection back

// A browser opens only six connections to a server without HTTP/2. So at most so many tabs hold a stream at a time. The others
// read all that is in force again and again, over a connection that they give back.
const slots = 3;

// DecisionStream follows the decisions. onEvents gets a list of {kind, number, decision, …} and onState what the connection is:
// {state: "connecting" | "live" | "turns" | "lost" | "resting" | "refused", retryAt, why}. run ends with signal.
export class DecisionStream {
  constructor({ onEvents, onState, signal }) {
    Object.assign(this, { onEvents, onState, signal });
    this.last = ""; // id of the newest event, while nothing before it is missing
    this.failures = 0;
  }

  // run connects, and connects again after a wait that doubles, until the signal ends. The answer 401 ends it too.
  async run() {
    while (!this.signal.aborted) {
      await this.untilSeen();
      const failed = await this.inSlot((slot) => this.attempt(slot));
      if (this.signal.aborted || failed?.status === 401) break;
      if (!failed) continue;
      const wait = Math.min(longestWait, firstWait * 2 ** this.failures++) * (0.75 + Math.random() / 2);
      this.onState({ state: "lost", why: failed.message, retryAt: Date.now() + wait });
      await this.waitToRetry(wait);
    }
  }

  // attempt follows one connection until it ends, and returns why it failed; null if it ended as it should.
  async attempt(slot) {
    const began = performance.now();
    try {
      await this.connect(slot);
      if (!slot && !this.signal.aborted) await pause(Math.max(2000, 4 * (performance.now() - began)), this.signal);
      return null;
    } catch (error) {
      return error;
    }
  }

  // inSlot calls work with true while this tab holds one of the slots, with false if other tabs hold them all.
  async inSlot(work) {
    if (!navigator.locks) return work(true);
    for (let i = 0; i < slots; i++) {
      let ran = false;
      const result = await navigator.locks.request(`floodgate.stream.${i}`, { ifAvailable: true }, async (lock) => {
        ran = lock !== null;
        return ran ? work(true) : null;
      });
      if (ran) return result;
    }
    return work(false);
  }

  async untilSeen() {
    if (document.visibilityState === "visible") return;
    this.onState({ state: "resting" });
    await pause(2 ** 31 - 1, this.signal);
  }

  // waitToRetry ends early when the browser says that it is online again, or the page is seen again.
  async waitToRetry(wait) {
    const online = new AbortController();
    const wake = () => online.abort();
    window.addEventListener("online", wake, { once: true });
    await pause(wait, AbortSignal.any([this.signal, online.signal]));
    window.removeEventListener("online", wake);
  }

  // connect reads one connection to its end. Without a slot it leaves as soon as all that is in force is known.
  async connect(slot) {
    const ending = new AbortController();
    const give = this.whenHidden(() => ending.abort("hidden"));
    const offline = () => ending.abort("offline");
    window.addEventListener("offline", offline);
    let timer = setTimeout(() => ending.abort("silent"), silence);
    try {
      const resume = slot && this.last ? { "Last-Event-ID": this.last } : {};
      if (!resume["Last-Event-ID"]) this.onEvents([{ kind: "begin" }]);
      this.last = resume["Last-Event-ID"] ?? "";
      const response = await fetch(address("decisions/stream"), {
        headers: headers(resume), signal: AbortSignal.any([this.signal, ending.signal]), cache: "no-store", credentials: "omit", redirect: "error",
      });
      if (!response.ok) throw new Problem(response.status, await response.json().catch(() => ({})));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new Parser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Problem(0, { title: "the analyzer has ended the stream" });
        clearTimeout(timer);
        timer = setTimeout(() => ending.abort("silent"), silence);
        if (this.take(parser.push(value), slot)) return;
      }
    } catch (error) {
      if (this.signal.aborted || ending.signal.reason === "hidden") return;
      if (error.status === 401 || error.status === 403) this.onState({ state: "refused", why: error.message });
      if (error instanceof Problem) throw error;
      const why = { silent: "the analyzer is silent", offline: "this computer is offline" };
      throw new Problem(0, { title: why[ending.signal.reason] ?? "the analyzer cannot be reached" });
    } finally {
      clearTimeout(timer);
      window.removeEventListener("offline", offline);
      give();
      ending.abort("done");
    }
  }

  // take hands events on, and reports whether a connection without a slot has all that it came for.
  take(events, slot) {
    if (events.length === 0) return false;
    this.onEvents(events);
    for (const event of events) {
      if (event.kind === "lost") this.last = "";
      if (event.kind === "current") {
        this.failures = 0;
        this.current = true;
        this.onState({ state: slot ? "live" : "turns" });
      }
      if (event.kind === "current" || this.last) this.last = event.id;
    }
    return !slot && events.some((event) => event.kind === "current");
  }

  // whenHidden calls leave when nobody has seen the page for hiddenFor, and returns how to stop that.
  whenHidden(leave) {
    let timer = 0;
    const changed = () => {
      clearTimeout(timer);
      if (document.visibilityState !== "visible") timer = setTimeout(leave, hiddenFor);
    };
    changed();
    document.addEventListener("visibilitychange", changed);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", changed);
    };
  }
}

// Parser makes events of the text of a stream of server-sent events, however it is cut into pieces. An event whose data is not
// JSON is left out.
export class Parser {
  constructor() {
    this.rest = "";
  }

  push(text) {
    const events = [];
    const all = this.rest + text;
    let from = 0;
    for (let end; (end = all.indexOf("\n\n", from)) >= 0; from = end + 2) {
      const event = parseBlock(all.slice(from, end));
      if (event) events.push(event);
    }
    this.rest = all.slice(from);
    return events;
  }
}

function parseBlock(block) {
  let data = "";
  let id = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) data += line.slice(6);
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (!data) return null;
  try {
    return { ...JSON.parse(data), id };
  } catch {
    return null;
  }
}
