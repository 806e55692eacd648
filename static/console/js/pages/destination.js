// One destination: its messages, its consumers, its policy, and the operations on it.
//
// An empty queue without consumers does not exist any more: its page says so until there is one of that name again.

import { get } from "../api.js";
import { Chart } from "../chart.js";
import { copyButton } from "../copy.js";
import { age, count, octets, short } from "../format.js";
import { html, nothing, render } from "../html.js";
import { table } from "../list.js";
import { lossNotice, storedBadge } from "../losses.js";
import { Messages } from "../messages.js";
import { cut, destinationLink, isHidden, whose } from "../names.js";
import { moveAll, purge, requeueAll } from "../operations.js";
import { card, empty, facts, failure, loading } from "../parts.js";
import { counts, meaning } from "../policy.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { MEANS } from "../words.js";
import { badges, oldest } from "./destinations.js";
import { columnsWithout } from "./subscriptions.js";

const EVERY = 2000;
const SELDOM = 10_000; // the gateway looks through all scheduled messages, of all destinations
const MOST_PRESENT = 100; // users that are listed
const [POINTS, STEP] = [60, 5]; // of the rates, and seconds between two of them
const CHART = {
  title: "Messages per second, the last five minutes",
  format: (value) => `${short(value)}/s`,
  height: 190,
  lines: [
    { key: "delivered", label: "out", colour: 2 },
    { key: "published", label: "in", colour: 1, fill: true },
    { key: "acknowledged", label: "acknowledged", colour: 3, dash: true },
    { key: "lost", label: "lost", colour: 6 },
  ],
};

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
    this.present = null; // the users of a topic; null: its policy does not tell them
    this.scheduled = null; // how many are still to come; null: not known
    this.figure = document.createElement("figure");
    this.chart = null; // drawn with the first answer
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
    this.chart?.leave();
  }

  async ask(signal) {
    if (this.gone && !(await this.isBack(signal))) return;
    const answer = await get("destination", { name: this.name }, signal);
    const tells = answer.kind === "topic" && answer.policy.presence && this.name.startsWith("/topic/");
    this.present = tells ? await get("presence", { destination: this.name, limit: MOST_PRESENT }, signal) : null;
    this.answer = answer;
    this.error = null;
    this.gone = false;
    if (this.answer.kind === "queue" || this.answer.log) this.messages.begin();
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
    const row = this.answer;
    if (row) this.plot(row);
    render(
      html`<div class="page-head">
          <a class="back" href=${link("destinations")}>All destinations</a>
          <h1 class="mono">${cut(row?.title ?? this.name)}</h1>
          ${copyButton(this.name, "the name")} ${row ? badges(row) : nothing} ${row ? this.actions(row) : nothing}
          ${row?.durable_subscription ? html`<p class="quiet back">${this.behind(row.durable_subscription)}</p>` : nothing}
        </div>
        ${failure("The destination cannot be shown.", this.error)} ${this.content()}`,
      this.root,
    );
  }

  /** What a durable subscription is one of. */
  behind(durable) {
    return html`${whose(durable)}, filled by
      <a class="mono" href=${link("destination", { name: durable.topic })}>${durable.topic}</a>; the gateway calls it
      <span class="mono">${this.name}</span>`;
  }

  content() {
    if (this.gone) return this.absent();
    if (this.answer) return this.parts(this.answer);
    return this.error ? nothing : loading;
  }

  actions(row) {
    return html`<div class="actions">
      ${row.kind === "pattern" || isHidden(row) ? nothing : this.later("button")}
      ${
        isHidden(row) || row.kind === "pattern"
          ? nothing
          : html`<a class="button" href=${link("playground", { destination: this.name })}>Publish …</a>`
      }
    </div>`;
  }

  /** What is done to all messages stands where the messages are, and what cannot be undone at the end. */
  operations(row) {
    const idle = row.waiting + row.delayed === 0;
    const button = (word, act, classes) =>
      html`<button
        type="button"
        class=${classes}
        ?disabled=${idle}
        @click=${() => this.did(act(row, this.messages.selector))}
      >
        ${word}
      </button>`;
    return html`<div class="actions">
      ${row.dead_letters ? button("Requeue dead letters …", requeueAll, "main") : nothing}
      ${button("Move all …", moveAll, "")} ${button("Purge …", purge, "danger")}
    </div>`;
  }

  /** What comes later, and where it is listed. */
  later(classes) {
    if (!this.scheduled) return nothing;
    const words = `${count(this.scheduled)} scheduled`;
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

  plot({ series }) {
    this.chart ??= new Chart(this.figure, CHART);
    const { at, step } = series ?? { at: Date.now() / 1000, step: STEP };
    const values = series?.published ?? [];
    const times = Array.from({ length: POINTS }, (_, place) => at - (POINTS - 1 - place) * step);
    const idle = Array(POINTS - values.length).fill(0); // before its first value
    this.chart.set(
      times,
      CHART.lines.map(({ key }) => [...idle, ...(series?.[key] ?? [])]),
    );
  }

  parts(row) {
    const policy = Object.entries(row.policy ?? {}).filter(([name]) => counts(name, row));
    const shows = row.kind === "queue" || row.log;
    return html`${lossNotice(row)}
    <div class="columns even">
      <div class="card stack">${facts(numbers(row))}<hr />${facts(rates(row))}</div>
      ${this.figure}
    </div>
    ${shows ? this.messages.view(row, row.kind === "queue" ? this.operations(row) : nothing) : nothing}
    ${this.present ? users(this.present) : nothing}
    ${row.kind === "queue" ? consumers(row) : subscribers(row)}
    ${policy.length ? card("policy-title", "Policy in force", facts(policy.map(inCode(row)))) : nothing}`;
  }
}

const perSecond = (row, key) => html`${short(row[`${key}_rate`])}/s <span class="quiet">${short(row[key])} in all</span>`;

function rates(row) {
  const found = [
    ["In", perSecond(row, "published"), MEANS.published],
    ["Out", perSecond(row, "delivered"), MEANS.delivered],
    ["Acknowledged", perSecond(row, "acknowledged"), MEANS.acknowledged],
  ];
  const names = { dropped: "Dropped", dead_lettered: "Dead letters", expired: "Expired", conflated: "Conflated" };
  for (const [key, name] of Object.entries(names)) {
    if (row[key] || key === "dropped") found.push([name, perSecond(row, key), MEANS[key]]);
  }
  return found;
}

/** A topic has nothing that waits, but perhaps a stream. */
function numbers(row) {
  if (row.kind !== "queue") {
    const stream = [
      ["Kept messages", count(row.log?.messages), MEANS.kept],
      ["Size of the kept", octets(row.log?.octets), MEANS.kept_size],
    ];
    return [
      ["Subscribers", count(row.consumers), MEANS.subscribers],
      ["By a pattern", count(row.pattern_subscriptions)],
      ["Durable", count(row.durable_subscriptions)],
      ["Unacknowledged", count(row.unacknowledged), MEANS.unacknowledged],
      ...(row.log ? stream : []),
    ];
  }
  return [
    ["Waiting", count(row.waiting), MEANS.waiting],
    ["Oldest", oldest(row), MEANS.oldest],
    ["Unacknowledged", count(row.unacknowledged), MEANS.unacknowledged],
    ["In back-off", count(row.delayed), MEANS.delayed],
    ["Size", octets(row.octets), MEANS.size],
    ["Stored", `${count(row.stored)} of ${count(row.waiting + row.delayed + row.unacknowledged)}`, MEANS.stored],
    ["Consumers", count(row.subscriptions), MEANS.consumers],
  ];
}

const keyOf = (each) => `${each.session} ${each.id} ${each.durable}`;
const listOf = (label, all, columns = columnsWithout("destination")) => table(`Table of ${label}`, columns, all, keyOf);

function consumers({ subscription_list: all }) {
  return card("consumers-title", "Consumers", all.length ? listOf("consumers", all) : empty("No consumers"));
}

const USERS = [
  { key: "id", label: "User", header: true, cell: (row) => cut(row.user ?? `guest ${row.id.slice("guest:".length)}`) },
  { key: "sessions", label: "Sessions", tip: MEANS.present, number: true, cell: (row) => count(row.sessions) },
  { key: "since", label: "Present for", hide: 2, cell: (row) => age(row.since) },
  { key: "info", label: "Says of itself", hide: 3, cell: (row) => cut(row.info ?? "") },
];

/** Of a topic: who is subscribed, as its presence tells. */
function users({ total, users: found, settling }) {
  const more = total > found.length ? html`<p class="quiet">The first ${count(found.length)} of them.</p>` : nothing;
  const note = settling ? html`<p class="quiet">The gateway has just started: users may still come back.</p>` : nothing;
  const list = found.length ? table("Table of users", USERS, found, (each) => each.id) : empty("No users");
  return card("users-title", "Present", html`${note}${list}${more}`, html`<span class="quiet">${count(total)}</span>`);
}

const DURABLE = [
  { key: "name", label: "Subscription", header: true, cell: destinationLink },
  { key: "waiting", label: "Waiting", tip: MEANS.waiting, number: true, cell: (row) => count(row.waiting) },
  { key: "stored", label: "Stored", tip: MEANS.stored, hide: 2, cell: storedBadge },
  { key: "subscriptions", label: "Consumers", number: true, cell: (row) => count(row.subscriptions) },
];

/** Of a topic: its own, those of patterns, and durable ones, which are queues that it fills. */
function subscribers(row) {
  const { subscription_list: own, pattern_subscription_list: others, durable_subscription_list: durable } = row;
  const none = row.kind === "topic" && row.log ? "Later subscribers get the messages that it keeps." : nothing;
  const content = html`<div class="stack">
    ${own.length || others.length || durable.length ? nothing : empty("No subscribers", none)}
    ${own.length ? listOf("subscribers", own) : nothing}
    ${others.length ? html`<h3>By a pattern</h3> ${listOf("subscribers by a pattern", others, columnsWithout())}` : nothing}
    ${
      durable.length
        ? html`<h3>Durable and shared subscriptions</h3>
            ${table("Table of durable subscriptions", DURABLE, durable, (each) => each.name)}`
        : nothing
    }
  </div>`;
  return card("consumers-title", "Subscribers", content);
}

const inCode =
  (row) =>
  ([name, found]) => [
    html`<code>${name}</code>`,
    html`<span class="mono whole">${cut(meaning(name, found, row))}${row.policy_of_clients?.includes(name) ? ", set by a client" : nothing}</span>`,
  ];
