// Short messages at the edge of the page: what was done, and how to undo it.

import { h, byID } from "./element.js";

const stays = 12_000; // milliseconds

// toast shows a message. action adds a button: {label, run}. It returns how to take the message away.
export function toast(text, { level = "good", action } = {}) {
  const element = h("div", { class: `toast ${level}` }, h("span", {}, text));
  const away = () => {
    clearTimeout(timer);
    element.remove();
  };
  const timer = setTimeout(away, stays);
  if (action) element.append(h("button", { type: "button", onclick: () => { away(); action.run(); } }, action.label));
  element.append(h("button", { type: "button", class: "plain", "aria-label": "Dismiss", onclick: away }, "×"));
  byID("toasts").replaceChildren(element); // the newest one only
  return away;
}
