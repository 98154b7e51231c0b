// Questions to the API on the listener that this page comes from, and its clock.

import { token } from "./token.js";

const base = new URL("../v1/", document.baseURI);
const answerWithin = 10_000; // milliseconds

// Problem is an answer that is an error, as RFC 9457 has it, or a connection that failed: its status is 0.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the analyzer has answered with status ${status}`);
    this.status = status;
    this.body = body;
  }

  // sentence says what was wrong, where, and what was wanted.
  get sentence() {
    const { got, want, pointer } = this.body;
    const where = pointer ? `${pointer}: ` : "";
    return want ? `${where}got ${got || "nothing"}, want ${want}` : `${where}${this.message}`;
  }
}

// headers returns the headers of each request.
export function headers(more = {}) {
  const text = token();
  return text ? { Authorization: `Bearer ${text}`, ...more } : more;
}

// address returns the URL of a route. query is a text, or an object whose values are encoded here.
export function address(route, query = "") {
  const url = new URL(route, base);
  url.search = typeof query === "string" ? query : new URLSearchParams(query).toString();
  return url;
}

// get asks a question and returns the JSON of the answer. The error is a Problem, or an AbortError if signal ended it.
export function get(route, query, signal) {
  return send(address(route, query), { headers: headers() }, signal);
}

// post sends an action under a key: to send it again with the same key writes no second record.
export function post(route, body, key) {
  const more = { "Content-Type": "application/json" };
  if (key) more["Idempotency-Key"] = key;
  return send(address(route), { method: "POST", headers: headers(more), body: JSON.stringify(body) });
}

async function send(url, options, signal) {
  const late = AbortSignal.timeout(answerWithin);
  const signals = signal ? AbortSignal.any([signal, late]) : late;
  let response;
  let body;
  try {
    response = await fetch(url, { ...options, signal: signals, cache: "no-store", credentials: "omit", redirect: "error" });
    body = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (!response || response.ok) throw new Problem(0, { title: late.aborted ? "the analyzer does not answer" : "the analyzer cannot be reached" });
    body = {};
  }
  if (!response.ok) throw new Problem(response.status, body);
  return body;
}

// randomKey returns a new Idempotency-Key, 32 hexadecimal digits.
export function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

let offset = 0; // of the analyzer's clock to that of the browser, in milliseconds

// now returns the time by the analyzer's clock, in milliseconds.
export function now() {
  return Date.now() + offset;
}

// setClock learns the analyzer's clock from an answer that says its time, and from when the question was asked.
export function setClock(iso, asked) {
  const measured = Date.parse(iso) - (asked + Date.now()) / 2;
  if (Math.abs(measured - offset) > 100) offset = measured;
}
