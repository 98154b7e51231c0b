// Callers, whose ids are any bytes. In an address, and in the API's query, a caller is kind:id, percent-encoded.

import { printable } from "./format.js";

// encoded returns kind:id of a caller of the API, percent-encoded. Equal callers have equal texts.
export function encoded(caller) {
  if (!caller.id_base64) return `${caller.kind}:${percentEncoded(new TextEncoder().encode(caller.id ?? ""))}`;
  const bytes = Uint8Array.from(atob(caller.id_base64), (c) => c.charCodeAt(0));
  return `${caller.kind}:${percentEncoded(bytes)}`;
}

const plain = /[A-Za-z0-9\-_.~:]/;

function percentEncoded(bytes) {
  let text = "";
  for (const b of bytes) {
    const c = String.fromCharCode(b);
    text += b < 128 && plain.test(c) ? c : `%${b.toString(16).padStart(2, "0").toUpperCase()}`;
  }
  return text;
}

// label returns a caller as people read it: kind:id. Bytes that are not UTF-8 are written as \xNN.
export function label(caller) {
  if (!caller.id_base64) return `${caller.kind}:${printable(caller.id ?? "")}`;
  const id = atob(caller.id_base64).replace(/[^\x20-\x7e]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return `${caller.kind}:${id}`;
}

// address returns the part of a link that leads to the caller's page.
export function address(caller) {
  return `#/caller/${encoded(caller)}`;
}

// fromTyped returns what a person has typed, kind:id, percent-encoded; "" if it is not a caller.
export function fromTyped(text) {
  const match = /^\s*([a-z0-9_-]{1,32}):(.+?)\s*$/s.exec(text);
  return match ? encoded({ kind: match[1], id: match[2] }) : "";
}

// fromAddress returns the caller of a link percent-encoded in the one way of encoded; "" if it is not a caller.
export function fromAddress(text) {
  const match = /^([a-z0-9_-]{1,32})(?::|%3A)(.*)$/is.exec(text);
  if (!match) return "";
  const raw = new TextEncoder().encode(match[2]);
  const bytes = [];
  for (let i = 0; i < raw.length; i++) {
    const hex = raw[i] === 37 ? /^[0-9a-fA-F]{2}$/.exec(String.fromCharCode(raw[i + 1] ?? 0, raw[i + 2] ?? 0)) : null;
    bytes.push(hex ? parseInt(hex[0], 16) : raw[i]);
    if (hex) i += 2;
  }
  return `${match[1].toLowerCase()}:${percentEncoded(bytes)}`;
}
