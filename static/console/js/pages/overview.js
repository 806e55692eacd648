// How the gateway is, at a glance: what is wrong first, then numbers, then the last minutes, then totals.

import { Chart } from "../chart.js";
import { count, duration, many, millis, octets, short } from "../format.js";
import { html, nothing, render } from "../html.js";
import * as live from "../live.js";
import { card, facts, loading } from "../parts.js";
import { link } from "../router.js";

const rate = (value) => (value === null || value === undefined ? short(value) : `${short(value)}/s`);
const percent = (value) => (value === null || value === undefined ? short(value) : `${short(value * 100)} %`);

const POWERS = Array.from({ length: 40 }, (_, power) => 2 ** power);

const CHARTS = [
  {
    title: "Messages per second",
    format: rate,
    lines: [
      { key: "delivered", label: "delivered", colour: 2 },
      { key: "published", label: "published", colour: 1, fill: true },
      { key: "acknowledged", label: "acknowledged", colour: 3, dash: true },
    ],
  },
  {
    title: "Latency of a turn of the broker",
    format: millis,
    lines: [
      { key: "p99", label: "p99", colour: 3 },
      { key: "p95", label: "p95", colour: 2 },
      { key: "p50", label: "p50", colour: 1, fill: true },
      { key: "lag_ms", label: "event loop delay", colour: 4, dash: true },
    ],
  },
  {
    title: "Memory of the process",
    format: octets,
    steps: POWERS,
    least: 2 ** 20,
    lines: [
      { key: "memory", label: "in use", colour: 1, fill: true },
      { key: "mark", label: "mark", colour: 5, dash: true, limit: true },
      { key: "octets", label: "messages", colour: 4 },
    ],
  },
  {
    title: "Connections",
    format: short,
    least: 5,
    lines: [
      { key: "connections", label: "connections", colour: 2, dash: true },
      { key: "sessions", label: "sessions", colour: 1, fill: true },
    ],
  },
  {
    title: "Messages waiting",
    format: short,
    least: 5,
    lines: [{ key: "waiting", label: "waiting", colour: 3, fill: true }],
  },
  {
    title: "Processor",
    format: percent,
    least: 0.1,
    lines: [{ key: "cpu", label: "of a core", colour: 4, fill: true }],
  },
];

const SPANS = [
  [60, "1 minute"],
  [300, "5 minutes"],
  [600, "10 minutes"],
];

const TOTALS = [
  ["published", "published"],
  ["delivered", "delivered"],
  ["redelivered", "redelivered"],
  ["acknowledged", "acknowledged"],
  ["rejected", "rejected (NACK)"],
  ["dead_lettered", "dead-lettered"],
  ["expired", "expired"],
  ["dropped", "dropped"],
  ["unroutable", "without a receiver"],
  ["duplicates", "duplicates"],
  ["errors", "ERROR frames"],
  ["logins_failed", "failed logins"],
  ["heartbeat_timeouts", "missed heart-beats"],
  ["slow_consumers", "slow consumers ended"],
];

let span = 600;

export const overview = { title: "Overview", mount: (root) => new Overview(root) };

class Overview {
  constructor(root) {
    this.root = root;
    this.parts = ["head", "now", "charts", "totals"].map(() => document.createElement("div"));
    for (const part of this.parts) part.className = "stack";
    this.parts[2].className = "charts";
    root.append(...this.parts);
    this.charts = CHARTS.map((spec) => {
      const figure = document.createElement("figure");
      this.parts[2].append(figure);
      return new Chart(figure, { ...spec, group: "overview" });
    });
    this.draw();
    this.end = live.follow(() => this.draw(), { closely: true });
  }

  leave() {
    this.end();
    for (const each of this.charts) each.leave();
  }

  draw() {
    const { answer, samples } = live.now();
    const [head, tiles, , totals] = this.parts;
    render(this.head(answer), head);
    this.parts[2].hidden = !answer; // or they would move down when the numbers come
    if (!answer) return render(loading, tiles);
    render(html`${troubles(answer)} ${numbers(answer, samples)}`, tiles);
    render(sums(answer), totals);
    const shown = samples.filter((each) => each.at > samples.at(-1).at - span);
    const times = shown.map((each) => each.at);
    for (const chart of this.charts)
      chart.set(
        times,
        chart.spec.lines.map(({ key }) => column(shown, key, answer)),
      );
    return undefined;
  }

  head(answer) {
    const choose = (event) => {
      span = Number(event.target.value);
      this.draw();
    };
    return html`<div class="page-head">
      <h1>Overview</h1>
      <p class="quiet">${answer ? `${answer.server_name} ${answer.version}, up ${duration(answer.uptime)}` : ""}</p>
      <div class="actions">
        <label class="check"
          ><span>Last</span>
          <select @change=${choose}>
            ${SPANS.map(([value, words]) => html`<option value=${value} ?selected=${value === span}>${words}</option>`)}
          </select>
        </label>
      </div>
    </div>`;
  }
}

/** A line that does not change in time is drawn from the answer. */
function column(samples, key, answer) {
  return samples.map((each) => (key === "mark" ? answer.memory.mark : (each[key] ?? null)));
}

function troubles(answer) {
  const found = [];
  const say = (title, text, bad = false) => found.push({ title, text, bad });
  if (!answer.ready) say("Not ready", answer.reason, true);
  for (const [part, text] of Object.entries(answer.complaints ?? {})) say(`${part}:`, text);
  if (answer.store?.failing) say("The store fails:", answer.store.failing, true);
  if (answer.journal?.failing) say("The journal fails:", answer.journal.failing);
  if (answer.memory.pressed)
    say("Memory is over its mark:", "publishers are blocked until consumers have taken messages.", true);
  if (answer.held)
    say("Publishers are blocked:", `${many(answer.held, "connection")} blocked until a full queue or the memory has room.`);
  return found.map(
    ({ title, text, bad }) => html`<p class="message ${bad ? "bad" : ""}"><strong>${title}</strong> ${text}</p>`,
  );
}

function numbers(answer, samples) {
  const { sessions, messages, memory, latency } = answer;
  const last = samples.at(-1) ?? {};
  const turn = latency.turn_ms;
  const full = memory.mark ? memory.process / memory.mark : 0;
  const memoryMark = memory.mark ? `mark at ${octets(memory.mark)}` : "no mark is set";
  const waiting = link("destinations", { state: "waiting", sort: "-waiting" });
  const transports = `${count(sessions.tcp)} TCP, ${count(sessions.websocket)} WebSocket`;
  return html`<dl class="tiles">
    ${tile("Published", rate(last.published), `${short(answer.counters.published)} in all`)}
    ${tile("Delivered", rate(last.delivered), `${short(answer.counters.delivered)} in all`)}
    ${tile("Sessions", count(sessions.total), transports, "", link("sessions"))}
    ${tile("Waiting", short(messages.waiting), `${octets(messages.octets)} in memory`, "", waiting)}
    ${tile("Turn, p99", turn ? millis(turn.p99) : "–", turn ? `p50 ${millis(turn.p50)}` : "idle")}
    ${tile("Memory", octets(memory.process), memoryMark, full > 0.9 ? "bad" : full > 0.75 ? "wait" : "")}
  </dl>`;
}

function tile(label, value, beside, kind = "", target = null) {
  return html`<div class="tile ${kind}">
    <dt>${target ? html`<a href=${target}>${label}</a>` : label}</dt>
    <dd class="value">${value}</dd>
    <dd class="quiet">${beside}</dd>
  </div>`;
}

function sums(answer) {
  const { counters, store, journal } = answer;
  const limits = Object.entries(answer.limits ?? {}).filter(([, hits]) => hits > 0);
  const totals = TOTALS.filter(([key]) => key in counters).map(([key, label]) => [label, count(counters[key])]);
  const met = limits.map(([name, hits]) => [name, count(hits)]);
  return html`<div class="columns">
    ${card("totals-title", "Since the start", facts(totals))}
    <div class="stack">
      ${card("holds-title", "Now", facts(held(answer)))}
      ${store ? card("store-title", "Store", facts(ofStore(store)), health(store)) : nothing}
      ${journal ? card("journal-title", "Journal", facts(ofJournal(journal)), health(journal)) : nothing}
      ${limits.length ? card("limits-title", "Limits that clients reached", facts(met)) : nothing}
    </div>
  </div>`;
}

function held({ destinations, subscriptions, messages, memory, latency }) {
  return [
    ["destinations", count(destinations)],
    ["subscriptions", count(subscriptions)],
    ["scheduled", html`<a href=${link("scheduled", { sort: "due" })}>${count(messages.delayed)}</a>`],
    ["retained", html`<a href=${link("retained")}>${count(messages.retained)}</a>`],
    ["without ACK", count(messages.unacknowledged)],
    ["bytes of messages", `${octets(messages.octets)} of ${octets(memory.messages_limit)}`],
    ...(latency.queue_ms ? [["in queue, p99", millis(latency.queue_ms.p99)]] : []),
    ...(latency.ack_ms ? [["until ACK, p99", millis(latency.ack_ms.p99)]] : []),
  ];
}

function ofStore(store) {
  return [
    ["commits", count(store.commits)],
    ["a commit takes", millis(store.commits ? (store.commit_seconds / store.commits) * 1000 : null)],
    ["not yet written", octets(store.pending_octets)],
    ["only on disk", count(store.backlog)],
  ];
}

function ofJournal(journal) {
  return [
    ["rows", count(journal.rows)],
    ["not yet written", octets(journal.pending_octets)],
    ["dropped", count(journal.dropped)],
  ];
}

const health = (part) =>
  part.failing ? html`<span class="badge bad">failing</span>` : html`<span class="badge good">works</span>`;
