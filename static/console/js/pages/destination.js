// One destination: its messages, its consumers, its policy, and the operations on it.
//
// An empty queue without consumers does not exist any more: its page says so until there is one of that name again.

import { get } from "../api.js";
import { count, octets } from "../format.js";
import { html, nothing, render } from "../html.js";
import { table } from "../list.js";
import { card, empty, facts, failure, loading } from "../parts.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { Messages } from "../messages.js";
import { moveAll, purge, redriveAll } from "../operations.js";
import { meaning } from "../policy.js";
import { badges, oldest } from "./destinations.js";
import { columnsWithout } from "./subscriptions.js";

const EVERY = 2000;
const SELDOM = 10_000; // the gateway looks through all scheduled messages, of all destinations

export const destination = {
  title: "Destination",
  mount: (root, query) => new Destination(root, query),
};

class Destination {
  constructor(root, query) {
    this.root = root;
    this.begin(query);
  }

  begin(query) {
    this.name = query.get("name") ?? "";
    this.answer = null;
    this.error = null;
    this.gone = false;
    this.scheduled = null; // how many are still to come; null: not known
    this.messages = new Messages(this.name, query, () => this.draw());
    this.polling = poll(
      (signal) => this.ask(signal),
      EVERY,
      (error) => this.fail(error),
    );
    this.counting = poll((signal) => this.ahead(signal), SELDOM);
    this.draw();
  }

  update(query) {
    if (query.get("name") === this.name) return this.messages.update(query);
    this.leave();
    return this.begin(query);
  }

  leave() {
    this.polling.stop();
    this.counting.stop();
    this.messages.leave();
  }

  async ask(signal) {
    if (this.gone && !(await this.isBack(signal))) return;
    this.answer = await get("destination", { name: this.name }, signal);
    this.error = null;
    this.gone = false;
    if (this.answer.kind === "queue") this.messages.begin();
    this.draw();
  }

  async ahead(signal) {
    this.scheduled = (await get("scheduled", { destination: this.name, limit: 1 }, signal)).total;
    this.draw();
  }

  /** By the list: each 404 would be an error in the browser's console. */
  async isBack(signal) {
    const { destinations } = await get("destinations", { q: this.name, sort: "name", limit: 100 }, signal);
    return destinations.some((each) => each.name === this.name);
  }

  fail(error) {
    this.gone = error.status === 404;
    this.error = this.gone ? null : error;
    if (this.gone) {
      this.answer = null;
      this.messages.leave();
    }
    this.draw();
  }

  /** After something was done: the numbers at once. */
  async did(action) {
    if (!(await action)) return;
    this.polling.again();
    this.messages.again();
  }

  draw() {
    render(
      html`<div class="page-head">
          <a class="back" href=${link("destinations")}>All destinations</a>
          <h1 class="mono">${this.name}</h1>
          ${this.answer ? badges(this.answer) : nothing} ${this.answer ? this.actions(this.answer) : nothing}
        </div>
        ${failure("The destination cannot be shown.", this.error)} ${this.content()}`,
      this.root,
    );
  }

  content() {
    if (this.gone) return this.absent();
    if (this.answer) return this.parts(this.answer);
    return this.error ? nothing : loading;
  }

  actions(row) {
    const queue = row.kind === "queue";
    const idle = row.waiting + row.delayed === 0;
    const button = (word, act, danger) =>
      html`<button
        type="button"
        class=${danger ? "danger" : ""}
        ?disabled=${idle}
        @click=${() => this.did(act(this.name))}
      >
        ${word}
      </button>`;
    return html`<div class="actions">
      ${row.kind === "pattern" ? nothing : this.later("button")}
      <a class="button" href=${link("playground", { destination: this.name })}>Publish …</a>
      ${queue && row.dead_letters ? button("Re-drive all …", redriveAll, false) : nothing}
      ${queue ? html`${button("Move all …", moveAll, false)} ${button("Purge …", purge, true)}` : nothing}
    </div>`;
  }

  /** What comes later, and where it is listed. */
  later(classes) {
    const words = this.scheduled === null ? "Scheduled" : `${count(this.scheduled)} scheduled`;
    return html`<a class=${classes} href=${link("scheduled", { destination: this.name, sort: "due" })}>${words}</a>`;
  }

  absent() {
    return html`<div class="card empty" role="status">
      <strong>This destination does not exist now</strong>
      <span>A queue exists while it has messages or consumers, a topic while it has subscribers.</span>
      <a href=${link("playground", { destination: this.name })}>Send a message to it</a>
      ${this.later("")}
    </div>`;
  }

  parts(row) {
    const policy = Object.entries(row.policy ?? {});
    const key = (each) => `${each.session} ${each.id} ${each.durable}`;
    const consumers = row.subscription_list?.length
      ? table("Consumers", columnsWithout("destination"), row.subscription_list, key)
      : empty("No consumers");
    return html`${facts(numbers(row), "facts card")} ${row.kind === "queue" ? this.messages.view(row) : nothing}
    ${card("consumers-title", "Consumers", consumers)}
    ${policy.length ? card("policy-title", "Policy in force", facts(policy.map(inCode(row)))) : nothing}`;
  }
}

function numbers(row) {
  const { log } = row;
  return [
    ["Waiting", count(row.waiting)],
    ["Oldest", oldest(row)],
    ["Without ACK", count(row.unacknowledged)],
    ["In back-off", count(row.delayed)],
    ["Size", octets(row.octets)],
    ["Stored", count(row.stored)],
    ["Consumers", count(row.subscriptions)],
    ...(log
      ? [
          ["Kept for replay", count(log.messages)],
          ["Bytes for replay", octets(log.octets)],
        ]
      : []),
  ];
}

const inCode =
  (row) =>
  ([name, found]) => [
    html`<code>${name}</code>`,
    html`<span class="mono whole">${meaning(name, found, row)}${row.policy_of_clients?.includes(name) ? ", set by a client" : nothing}</span>`,
  ];
