// The rules: those in force, the versions that analyzers have noted, and what differs between two of them.

import { h, panel, setText, table } from "./element.js";
import { get } from "./api.js";
import { csvButton, linesOf } from "./csv.js";
import { poll } from "./poll.js";
import { time, utc } from "./format.js";

const every = 5000; // milliseconds

const fates = { kept: "counts stay", kept_of_matching: "counts of callers that still match stay", start_at_zero: "counts start at zero", dropped: "counts are dropped" };

// rulesPage returns the page. from and to are the versions of the address, and may be empty.
export function rulesPage({ from, to, status, act, signal }) {
  return new RulesPage({ from, to, status, act, signal });
}

class RulesPage {
  constructor(parts) {
    Object.assign(this, parts);
    this.title = "Rules";
    this.inUse = panel("In force", h("button", { type: "button", class: "small", hidden: true, "data-action": "mode", onclick: () => this.brake("") }, "Shadow mode for all…"),
      h("span", { class: "tools" }, csvButton("rules", () => linesOf(this.inUse.querySelector("table")))));
    this.versions = panel("Versions");
    this.difference = panel("Difference");
    this.sayInstead("empty", "Reading …");
    this.text = h("pre", { class: "rules-text", tabindex: "0", "aria-label": "Text of the rules file" });
    this.element = h("div", { class: "page rules-page" }, h("h1", { tabindex: "-1" }, "Rules"), this.inUse, h("div", { class: "columns even" }, this.versions, this.difference),
      h("details", { class: "panel" }, h("summary", {}, "The text of the file"), this.text));
    this.keys = { next: () => this.move(1), previous: () => this.move(-1), enter: () => false };
  }

  start() {
    poll(() => this.load(), every, this.signal);
    this.status.addEventListener("change", () => this.statusChanged(), { signal: this.signal });
    window.addEventListener("floodgate:acted", () => this.load(), { signal: this.signal });
  }

  async load() {
    try {
      const [rules, versions] = await Promise.all([get("rules", "", this.signal), get("rules/versions", "", this.signal)]);
      const text = JSON.stringify([rules, versions]);
      const same = text === this.drawn;
      if (this.signal.aborted || (same && this.compared)) return;
      this.drawn = text;
      this.rules = rules;
      if (!same) this.show(rules, versions.versions);
      this.compared = await this.compare(versions.versions);
    } catch (error) {
      if (!this.signal.aborted && !this.rules) this.sayInstead("empty error", `No answer: ${error.sentence}.`);
    }
  }

  // sayInstead writes why the panels have nothing to show.
  sayInstead(look, text) {
    for (const part of [this.inUse, this.versions, this.difference]) part.body.replaceChildren(h("p", { class: look }, text));
  }

  show(rules, versions) {
    const list = table("Rules in force", ["Rule", "Callers", "#Limit", "Window", "Mode", "Closes", "Act"]);
    list.body.append(...rules.rules.map((rule) => list.label(this.ruleRow(rule))));
    this.unused = h("div", { class: "unused" });
    this.inUse.body.replaceChildren(h("div", { class: "wide", tabindex: "0" }, list), this.unused);
    setText(this.text, rules.text);
    this.showVersions(versions);
    this.statusChanged();
  }

  // statusChanged shows what the status says of the rules in force: which are without effect, and who may put them into shadow mode.
  statusChanged() {
    this.allow();
    const unused = this.status.value?.rules?.unused ?? [];
    this.unused?.replaceChildren(...unused.map((text) => h("p", { class: "banner warn" }, h("strong", {}, "Without effect"), ` ${text}.`)));
  }

  ruleRow(rule) {
    const mode = rule.effective_mode || rule.mode;
    const level = mode === "shadow" ? "warn" : "good";
    const brake = mode !== "shadow" && h("button", { type: "button", class: "small", hidden: true, "data-action": "mode", onclick: () => this.brake(rule.name) }, "Shadow…");
    return h("tr", { "data-rule": rule.name }, h("th", { scope: "row" }, rule.name), h("td", {}, rule.callers, rule.match && h("span", { class: "muted small" }, ` ${rule.match}`)),
      h("td", { class: "number" }, rule.limit.toLocaleString("en"), h("span", { class: "muted small" }, ` ${rule.measure}${rule.capacity ? " of all callers" : ""}`)),
      h("td", {}, rule.window, rule.charge && h("span", { class: "muted small block" }, `charged at ${rule.charge}`), rule.hold && h("span", { class: "muted small block" }, `holds ${rule.hold}`)),
      h("td", {}, h("span", { class: "state", "data-level": level }, mode), rule.brake && h("span", { class: "muted small block" }, `by ${rule.brake.author}; the file says ${rule.mode}`)), h("td", {}, rule.close || "until it is below its limit"), h("td", {}, brake));
  }

  // allow shows the brake to those who may use it, when the rules are there that its dialog needs.
  allow() {
    for (const button of this.inUse.querySelectorAll("[data-action=mode]")) button.hidden = !this.rules || !this.status.may("admin");
  }

  brake(rule) {
    return this.act({ action: "mode", rule, rules: this.rules.rules });
  }

  showVersions(versions) {
    if (versions.length === 0) {
      this.versions.body.replaceChildren(h("p", { class: "empty" }, "No analyzer has noted a version yet."));
      return;
    }
    const list = h("ul", { class: "versions" }, versions.map((version, i) => this.versionRow(version, versions[i + 1])));
    this.versions.body.replaceChildren(list);
  }

  versionRow(version, older) {
    const at = Date.parse(version.time);
    const used = version.partitions?.length ? `partitions ${version.partitions.join(", ")}` : version.in_use ? "this analyzer" : "";
    const to = older ? `#/rules/${older.id}/${version.id}` : null;
    return h("li", { "data-version": version.id }, h("code", {}, version.id), used && h("span", { class: "state", "data-level": "good" }, used),
      h("span", { class: "muted small" }, h("time", { datetime: utc(at), title: utc(at) }, time(at)), ` · ${version.author}${version.reason ? ` · ${version.reason}` : ""}`),
      to && h("a", { href: to, class: "small" }, "compare with the one before"));
  }

  // compare shows the difference of the versions in the address; without them, of the two newest. It reports whether it could.
  async compare(versions) {
    const to = this.to || versions[0]?.id;
    const from = this.from || versions[1]?.id;
    if (!from || !to) {
      this.difference.body.replaceChildren(h("p", { class: "empty" }, "There is one version, so nothing differs."));
      return true;
    }
    try {
      this.showDifference(await get("rules/diff", { from, to }, this.signal));
      return true;
    } catch (error) {
      if (!this.signal.aborted) this.difference.body.replaceChildren(h("p", { class: "empty error" }, `No answer: ${error.sentence}.`));
      return false;
    }
  }

  showDifference(diff) {
    const head = h("p", { class: "muted small" }, h("code", {}, diff.from), " → ", h("code", {}, diff.to),
      ` · ${diff.unchanged} unchanged${diff.reordered ? " · another order" : ""}`);
    const list = diff.rules.map(differenceOf);
    this.difference.body.replaceChildren(head, ...(list.length > 0 ? list : [h("p", { class: "empty" }, "They mean the same.")]));
  }

  move(by) {
    const links = [...this.versions.querySelectorAll("a")];
    links[Math.min(links.length - 1, Math.max(0, links.indexOf(document.activeElement) + by))]?.focus();
  }
}

function differenceOf(rule) {
  const levels = { added: "good", removed: "bad", changed: "warn" };
  const lines = [...(rule.fields ?? []).map((f) => [f.field, f.before, f.after]), ...(rule.overrides ?? []).map((o) => [`override ${o.of}`, o.before, o.after])];
  return h("div", { class: "difference", "data-rule": rule.rule }, h("p", {}, h("strong", {}, rule.rule), " ", h("span", { class: "state", "data-level": levels[rule.change] }, rule.change),
    h("span", { class: "muted small" }, ` ${fates[rule.counts] ?? rule.counts}`)),
  h("dl", { class: "fields" }, lines.flatMap(([name, before, after]) => [h("dt", {}, name), h("dd", {}, h("del", {}, before || "not set"), " ", h("ins", {}, after || "not set"))])));
}
