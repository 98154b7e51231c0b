// The dialog in which a person acts: for how long, why, and what will happen. Nothing is sent before its last button.

import { h, setText } from "./element.js";
import { now, post, Problem, randomKey } from "./api.js";
import { consequence, past, verbs } from "./consequence.js";
import { label } from "./callerid.js";
import { toast } from "./toast.js";
import { endExamples, endOf } from "./until.js";

const other = "other"; // the choice of an end that is written
const durations = [["1m", "1 minute", 60], ["5m", "5 minutes", 300], ["15m", "15 minutes", 900], ["1h", "1 hour", 3600], ["6h", "6 hours", 21600], ["1d", "1 day", 86400], ["7d", "7 days", 604800], [other, "another end …", 0]];
const longestReason = 512; // bytes
const undoable = new Set(["close", "open", "limit", "mode"]);

let newest = null; // the newest record of this tab that can be undone

// lastDone returns it, for the key u.
export function lastDone() {
  return newest;
}

// act asks a person about an action and sends it: {action, caller, rules, target, rule}. rules names the rules to choose from: explain's
// rules of the caller, or those of the rules page. target is the record that an undo ends. It resolves with the answer, or with null
// if the person has left.
export function act(wish) {
  return new Promise((resolve) => new ActionDialog(wish, resolve).show());
}

class ActionDialog {
  constructor(wish, resolve) {
    Object.assign(this, wish);
    this.resolve = resolve;
    this.key = randomKey();
    this.who = this.caller ? label(this.caller) : "";
    this.fields = {};
    this.build();
  }

  build() {
    const name = this.target ? `${verbs.undo}: ${this.target.action} ${this.target.who}` : [verbs[this.action], this.who].filter(Boolean).join(" ");
    this.sentence = h("p", { class: "consequence", id: "consequence", "aria-live": "polite" });
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.confirm = h("button", { type: "submit", class: this.action === "close" || this.action === "mode" ? "primary danger" : "primary" }, verbs[this.action]);
    const leave = h("button", { type: "button", onclick: () => this.dialog.close() }, "Cancel");
    this.form = h("form", { method: "dialog" }, h("h2", { id: "dialog-name" }, name), this.inputs(),
      h("p", { class: "unseen" }, "What will happen:"), this.sentence, this.error, h("div", { class: "buttons" }, leave, this.confirm));
    this.dialog = h("dialog", { class: "act", "aria-labelledby": "dialog-name", "aria-describedby": "consequence" }, this.form);
    this.form.addEventListener("input", () => this.describe());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.dialog.addEventListener("close", () => {
      this.dialog.remove();
      this.resolve(this.answer ?? null);
    });
  }

  inputs() {
    const list = [];
    const names = (this.rules ?? []).map((r) => r.rule ?? r.name);
    if (["open", "limit", "reset", "mode"].includes(this.action)) list.push(this.ruleInput(names));
    if (this.action === "limit") list.push(this.input("limit", "New limit", { type: "number", min: "1", max: "1000000000000000", required: true, inputmode: "numeric" }));
    if (["close", "open", "limit", "mode"].includes(this.action)) {
      list.push(this.field("duration", "For", h("select", {}, durations.map(([value, text]) => h("option", { value, selected: value === "15m" }, text)))));
      list.push(this.input("end", "For how long, or until when", { type: "text", autocomplete: "off", placeholder: endExamples }));
    }
    list.push(this.input("reason", "Reason, for those who read it later", { type: "text", maxlength: String(longestReason), required: true, autocomplete: "off" }));
    return list;
  }

  ruleInput(names) {
    const options = names.map((name) => h("option", { value: name, selected: name === this.rule }, name));
    if (this.action !== "limit") options.unshift(h("option", { value: "" }, "all rules"));
    return this.field("rule", "Rule", h("select", {}, options));
  }

  input(name, text, attributes) {
    return this.field(name, text, h("input", attributes));
  }

  field(name, text, control) {
    control.id = `act-${name}`;
    control.name = name;
    this.fields[name] = control;
    return h("div", { class: "field" }, h("label", { for: control.id }, text), control);
  }

  show() {
    document.body.append(this.dialog);
    this.fields.duration?.addEventListener("change", () => this.askForEnd());
    if (this.fields.end) this.fields.end.parentElement.hidden = true;
    this.describe();
    this.dialog.showModal();
    (this.fields.limit ?? this.fields.reason).focus();
  }

  askForEnd() {
    const written = this.fields.duration.value === other;
    this.fields.end.parentElement.hidden = !written;
    if (written) this.fields.end.focus();
  }

  // until returns the end that was chosen, or written; 0 if there is none.
  until() {
    if (this.fields.duration?.value === other) return endOf(this.fields.end.value, now());
    const seconds = durations.find(([value]) => value === this.fields.duration?.value)?.[2];
    return seconds ? now() + seconds * 1000 : 0;
  }

  // values returns what was chosen so far.
  values() {
    return {
      action: this.action, who: this.who, rules: this.rules, target: this.target, rule: this.fields.rule?.value ?? "",
      limit: Number(this.fields.limit?.value || 0), until: this.until(), reason: this.fields.reason.value.trim(),
    };
  }

  describe() {
    const v = this.values();
    if (this.fields.duration && !v.until) setText(this.sentence, `Write an end to see what will happen, such as ${endExamples}.`);
    else setText(this.sentence, this.action === "limit" && !v.limit ? "Write the new limit to see what will happen." : consequence(v));
  }

  body(v) {
    const body = { reason: v.reason };
    if (this.action === "undo") return { ...body, id: this.target.id };
    if (this.action === "mode") body.mode = "shadow";
    else body.caller = this.caller;
    if (v.rule) body.rule = v.rule;
    if (this.action === "limit") body.limit = v.limit;
    if (v.until) body.until = new Date(v.until).toISOString();
    return body;
  }

  // check returns what is wrong with the values; "" if nothing is.
  check(v) {
    if (!v.reason) return "Write a reason.";
    if (new TextEncoder().encode(v.reason).length > longestReason) return `The reason has more than ${longestReason} bytes.`;
    if (this.action === "limit" && !(Number.isSafeInteger(v.limit) && v.limit > 0)) return "The limit is a whole number from 1 on.";
    if (this.fields.duration && !v.until) return `End: got ${this.fields.end.value || "nothing"}, want a time that is to come, such as ${endExamples}.`;
    return "";
  }

  async send() {
    const values = this.values();
    const wrong = this.check(values);
    if (wrong) return this.complain(wrong);
    this.confirm.disabled = true;
    // A request whose answer was lost, or that the analyzer could not finish, is sent again as it was: the key makes that one record.
    if (!this.unanswered) this.sent = this.body(values);
    try {
      this.answer = await post(this.action, this.sent, this.key);
    } catch (error) {
      this.confirm.disabled = false;
      this.unanswered = error instanceof Problem && (error.status === 0 || error.status >= 500);
      if (!this.unanswered) this.key = randomKey();
      for (const field of Object.values(this.fields)) field.disabled = this.unanswered;
      return this.complain(this.unanswered ? `${error.sentence}. Nobody knows whether it was done: try again, it is done once at most.` : error.sentence);
    }
    this.dialog.close();
    this.done();
  }

  complain(text) {
    this.error.hidden = false;
    setText(this.error, text);
  }

  done() {
    const record = { ...this.answer.action, who: this.who };
    newest = undoable.has(record.action) ? record : null;
    const waiting = this.answer.applied ? "" : ` Owners of partitions ${(this.answer.waiting ?? []).join(", ")} have not applied it yet.`;
    const undo = { label: "Undo", run: () => act({ action: "undo", target: record }) };
    toast(past(record, this.who || this.target?.who || "It") + waiting, { level: this.answer.applied ? "good" : "warn", action: newest && undo });
    window.dispatchEvent(new Event("floodgate:acted"));
  }
}
