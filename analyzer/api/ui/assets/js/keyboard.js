// The keys of the page. They do nothing while a person types, or while a dialog is open.

import { h } from "./element.js";

const keys = [
  ["/", "find a caller"], ["j / k", "next, previous line"], ["Enter", "open the line"], ["c", "close the caller"], ["o", "open the caller"],
  ["u", "undo"], ["Esc", "leave"], ["?", "these keys"],
];

const storageKey = "floodgate.keys"; // "off" while the keys of one letter or sign do nothing

function keysAreOn() {
  return localStorage.getItem(storageKey) !== "off";
}

function switchKeys(on) {
  if (on) localStorage.removeItem(storageKey);
  else localStorage.setItem(storageKey, "off");
}

// listen calls handlers by the key: find, next, previous, enter, close, open, undo, help.
export function listen(handlers) {
  const names = { "/": "find", j: "next", k: "previous", Enter: "enter", c: "close", o: "open", u: "undo", "?": "help" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]") || isTyping(event.target)) return;
    const name = names[event.key];
    if (!name || (event.key.length === 1 && !keysAreOn()) || (name === "enter" && event.target.closest("a, button, summary"))) return;
    if (handlers[name]?.() !== false) event.preventDefault();
  });
}

function isTyping(element) {
  return element.matches?.("input, textarea, select, [contenteditable]") ?? false;
}

// showKeys opens the dialog that lists the keys, and in which a person switches off those of one letter or sign: somebody who speaks to
// the computer, or whose hand trembles, presses them unawares. The browser remembers it.
export function showKeys() {
  const on = h("input", { type: "checkbox", id: "keys-on", onchange: (event) => switchKeys(event.target.checked) });
  on.checked = keysAreOn();
  const dialog = h("dialog", { class: "keys", "aria-labelledby": "keys-name" },
    h("h2", { id: "keys-name" }, "Keys"),
    h("dl", {}, keys.flatMap(([key, text]) => [h("dt", {}, key.split(" / ").flatMap((k, i) => [i > 0 && " ", h("kbd", {}, k)])), h("dd", {}, text)])),
    h("label", { class: "switch", for: "keys-on" }, on, "Use the keys of one letter or sign"),
    h("form", { method: "dialog", class: "buttons" }, h("button", { class: "primary" }, "Done")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
