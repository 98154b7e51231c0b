// The token of this tab. It comes from the link (#token=…) or from a form, is kept in sessionStorage, and is sent in the header
// Authorization only. It is never in an address that a person can see, send or bookmark.

import { h, byID } from "./element.js";

const storageKey = "floodgate.token";

// takeFromAddress moves the token of a link into sessionStorage, and removes it from the address at once, whatever else is in the link.
export function takeFromAddress() {
  const match = /^#token=([^&]*)(?:&to=(.*))?/.exec(location.hash);
  if (!match) return false;
  const to = decoded(match[2] ?? "");
  history.replaceState(null, "", `${location.pathname}#${to.startsWith("/") ? to : "/"}`);
  store(decoded(match[1]));
  return true;
}

// decoded undoes percent-encoding. A text that is not percent-encoded UTF-8, such as the address of a caller whose id is other bytes, stays
// as it is.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// token returns the token, or "" if there is none.
export function token() {
  return sessionStorage.getItem(storageKey) ?? "";
}

export function store(text) {
  if (text) sessionStorage.setItem(storageKey, text);
  else sessionStorage.removeItem(storageKey);
}

// redeem exchanges the token of a link that works once, which begins with "once.", for that of a session. It returns why it could not;
// "" if there was nothing to exchange, or all is well.
export async function redeem() {
  if (!token().startsWith("once.")) return "";
  const body = JSON.stringify({ token: token() });
  store("");
  try {
    const response = await fetch(new URL("session", document.baseURI), {
      method: "POST", headers: { "Content-Type": "application/json" }, body, cache: "no-store", credentials: "omit", redirect: "error",
    });
    const answer = await response.json();
    if (response.ok) store(answer.token);
    return response.ok ? "" : answer.detail || answer.title;
  } catch {
    return "The analyzer did not answer to the link: ask it for another one.";
  }
}

// askForToken shows a form in place of the page until a person has given a token or opened a link in this tab, and resolves then. why
// says what was wrong with the token before, if there was one.
export function askForToken(why) {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false", "aria-describedby": "token-why" });
    const form = h("form", { class: "panel signin" },
      h("h1", {}, "Token"),
      h("p", { id: "token-why", role: "alert" }, why || "This analyzer asks for a token."),
      h("label", { for: "token" }, "Token of the API"), input,
      h("button", { type: "submit", class: "primary" }, "Continue"),
      h("p", { class: "muted" }, "An administrator makes one with ", h("code", {}, "floodgate token NAME ROLE"), ". It stays in this tab, until the tab is closed."));
    const done = () => {
      window.removeEventListener("hashchange", linked);
      form.remove();
      resolve();
    };
    const linked = () => { if (takeFromAddress()) done(); };
    window.addEventListener("hashchange", linked);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = input.value.trim();
      if (!text) return;
      store(text);
      done();
    });
    byID("content").replaceChildren(form);
    input.focus();
  });
}

// askToForget shows a dialog, and resolves with whether the person wants the tab to forget its token.
export function askToForget() {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "forget-name" },
      h("h2", { id: "forget-name" }, "Forget the token of this tab?"),
      h("p", {}, "The page then asks for one. Other tabs keep theirs, and the token stays good."),
      h("form", { method: "dialog", class: "buttons" },
        h("button", { value: "keep", autofocus: true }, "Cancel"), h("button", { value: "forget", class: "primary" }, "Forget")));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "forget");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
