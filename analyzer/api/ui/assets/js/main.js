// The page's start: token, stream, status, which page is shown, and keys.

import { byID, h, setText } from "./element.js";
import { askForToken, askToForget, redeem, store, takeFromAddress, token } from "./token.js";
import { span } from "./format.js";
import { Closures } from "./closures.js";
import { DecisionStream } from "./eventstream.js";
import { Status } from "./status.js";
import { bannersOf, drawBanners } from "./banners.js";
import { act, lastDone } from "./actiondialog.js";
import { label, fromAddress, fromTyped } from "./callerid.js";
import { listen, showKeys } from "./keyboard.js";
import { Search } from "./search.js";
import { toast } from "./toast.js";
import { overview } from "./overview.js";
import { callerPage } from "./callerpage.js";
import { rulesPage } from "./rulespage.js";
import { actionsPage } from "./actionspage.js";

// Session is all that belongs to one token: from when it is given until it is refused.
class Session {
  constructor() {
    this.ending = new AbortController();
    this.signal = this.ending.signal;
    this.closures = new Closures();
    this.status = new Status();
    this.connection = { state: "connecting" };
    this.page = null;
  }

  // run shows pages until the token is refused, and returns why.
  async run() {
    this.status.addEventListener("change", () => this.statusChanged());
    const stream = new DecisionStream({
      onEvents: (events) => this.closures.apply(events), onState: (state) => this.connected(state), signal: this.signal,
    });
    window.addEventListener("hashchange", () => this.route(), { signal: this.signal });
    const timer = setInterval(() => this.drawConnection(), 500);
    const refused = new Promise((resolve) => { this.refuse = resolve; });
    this.route();
    this.status.run(this.signal);
    stream.run();
    const why = await refused;
    clearInterval(timer);
    this.leavePage();
    this.ending.abort();
    return why;
  }

  statusChanged() {
    const { value, error } = this.status;
    if (error?.status === 401) this.refuse(token() ? "The token is not known, or was revoked." : "");
    const who = byID("who");
    who.hidden = !value;
    if (value && who.dataset.who !== `${value.who} ${value.role}`) {
      who.dataset.who = `${value.who} ${value.role}`;
      who.replaceChildren(h("span", { class: "name" }, `${value.who} · `), value.role);
    }
    who.title = value?.tokens ? "Forget the token of this tab" : "This server has no tokens";
    this.drawConnection();
    this.drawBanners();
    this.markLive();
  }

  connected(state) {
    if (state.state === "refused" && !token()) this.refuse("");
    this.connection = state;
    this.drawConnection();
    this.drawBanners();
    this.markLive();
  }

  // markLive notes once when the page shows live data, for those who measure it.
  markLive() {
    if (this.live || !this.status.value || !this.closures.complete) return;
    this.live = true;
    performance.mark("floodgate-live");
  }

  drawBanners() {
    byID("content").classList.toggle("old", Boolean(this.status.error));
    drawBanners(byID("banners"), bannersOf(this.status.value, this.status.error, this.connection),
      this.status.may("admin") ? (record) => this.undo(record) : null);
  }

  drawConnection() {
    const { state: stream, why, retryAt } = this.connection;
    const away = this.status.value?.kafka.reachable === false; // the stream lives, but there is nothing new in it
    const state = away && stream !== "refused" && stream !== "lost" ? "away" : stream;
    const wait = retryAt ? Math.max(0, retryAt - Date.now()) : 0;
    const words = { connecting: "Connecting", live: "Live", away: "Kafka away", turns: "Live, by turns", resting: "Resting", refused: "Refused", lost: wait > 0 ? "Lost" : "Connecting again" };
    const element = byID("connection");
    element.dataset.state = state;
    element.title = why ?? (state === "turns" ? "Other tabs hold the connections of this browser: this one asks every few seconds" : "");
    const [word, left] = element.children; // a screen reader reads the word when it changes, and no countdown
    setText(word, words[state]);
    setText(left, state === "lost" && wait > 0 ? `again in ${span(wait)}` : "");
  }

  leavePage() {
    this.pageEnding?.abort();
    this.page = null;
  }

  // route shows the page that the address names.
  route() {
    if (takeFromAddress()) return this.refuse(null);
    this.leavePage();
    this.pageEnding = new AbortController();
    const signal = AbortSignal.any([this.signal, this.pageEnding.signal]);
    const first = !this.shown;
    this.page = this.make(location.hash, signal);
    this.shown = true;
    byID("content").replaceChildren(this.page.element);
    document.title = `${this.page.title} · floodgate`;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.page === this.page.route) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    byID("find").value = "";
    this.page.start();
    if (!first) {
      scrollTo(0, 0);
      this.page.element.querySelector("h1")?.focus({ preventScroll: true });
    }
  }

  make(hash, signal) {
    const [, name = "", ...rest] = hash.replace(/^#/, "").split("/");
    const common = { closures: this.closures, status: this.status, actOn: (...a) => this.actOn(...a), undo: (record) => this.undo(record), act, signal };
    const id = name === "caller" ? fromAddress(rest.join("/")) : "";
    if (id) return Object.assign(callerPage({ id, ...common }), { route: "caller" });
    if (name === "rules") return Object.assign(rulesPage({ from: rest[0] ?? "", to: rest[1] ?? "", ...common }), { route: "rules" });
    if (name === "actions") return Object.assign(actionsPage({ state: rest[0] ?? "", ...common }), { route: "actions" });
    return Object.assign(overview(common), { route: "overview" });
  }

  // actOn asks about an action on a caller. rules are explain's, which the lists do not have.
  actOn(action, caller, rules, rule) {
    if (!caller || !this.status.may("operate")) return false;
    act({ action, caller, rules: rules ?? [], rule });
    return true;
  }

  undo(record) {
    act({ action: "undo", target: { ...record, who: record.caller ? label(record.caller) : "" } });
    return true;
  }

  undoLast() {
    if (this.page.keys.undo?.()) return;
    const record = lastDone();
    if (record && this.status.may("operate")) this.undo(record);
  }

  // find opens the caller that was typed, or the selected line.
  find(text) {
    const id = fromTyped(text);
    if (id) location.hash = `#/caller/${id}`;
    else if (text.trim()) toast("A caller is KIND:ID, such as key:abc or ip:203.0.113.9.", { level: "warn" });
  }
}

let session = null;

function wire() {
  const find = byID("find");
  const search = new Search(find, () => session !== null);
  byID("search").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!search.open()) session?.find(find.value);
    find.blur();
  });
  find.addEventListener("input", () => session?.page?.find?.(find.value.trim()));
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    find.value = "";
    session?.page?.find?.("");
    find.blur();
  });
  byID("help").addEventListener("click", showKeys);
  byID("who").addEventListener("click", async () => {
    const asked = token();
    if (!session?.status.value?.tokens || !await askToForget() || token() !== asked) return; // a link may have brought another one
    store("");
    session?.refuse("The token of this tab is forgotten.");
  });
  const pageKey = (name) => () => session?.page?.keys[name]?.() ?? false;
  listen({
    find: () => find.focus(), help: showKeys, next: pageKey("next"), previous: pageKey("previous"), enter: pageKey("enter"),
    close: pageKey("close"), open: pageKey("open"), undo: () => session?.page && session.undoLast(),
  });
}

async function main() {
  takeFromAddress();
  wire();
  for (;;) {
    const problem = await redeem();
    if (takeFromAddress()) continue; // another link, while the first was exchanged
    session = problem ? null : new Session();
    const why = problem || await session.run();
    session = null;
    if (why === null) continue; // another token came by a link
    drawBanners(byID("banners"), []);
    byID("content").classList.remove("old");
    byID("who").hidden = true;
    await askForToken(why);
  }
}

main();
