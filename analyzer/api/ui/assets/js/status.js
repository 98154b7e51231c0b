// What all analyzers do, asked again and again, and what this person may do.

import { get, setClock } from "./api.js";
import { poll } from "./poll.js";

const every = 2000; // milliseconds

// Status holds the newest answer of GET /v1/status as value, and why there is none newer as error. It sends "change".
export class Status extends EventTarget {
  constructor() {
    super();
    this.value = null;
    this.error = null;
  }

  run(signal) {
    return poll(() => this.ask(signal), every, signal);
  }

  async ask(signal) {
    const asked = Date.now();
    try {
      this.value = await get("status", "", signal);
      this.error = null;
      setClock(this.value.now, asked);
    } catch (error) {
      if (signal.aborted) return;
      this.error = error;
    }
    this.dispatchEvent(new Event("change"));
  }

  // may reports whether this person has a role: read, operate or admin.
  may(role) {
    const roles = ["none", "read", "operate", "admin"];
    return roles.indexOf(this.value?.role ?? "none") >= roles.indexOf(role);
  }
}
