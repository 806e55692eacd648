// How the gateway is, at a glance: what is wrong first, then numbers, then the last minutes or the last day, then totals.

import { get } from "../api.js";
import { Chart } from "../chart.js";
import { age, count, duration, many, millis, octets, short } from "../format.js";
import { html, nothing, render } from "../html.js";
import { table } from "../list.js";
import * as live from "../live.js";
import { card, facts, failure, loading, switcher } from "../parts.js";
import { poll } from "../poll.js";
import { present, problems } from "../problems.js";
import { go, link } from "../router.js";
import { MEANS } from "../words.js";

const rate = (value) => (value === null || value === undefined ? short(value) : `${short(value)}/s`);
const percent = (value) => (value === null || value === undefined ? short(value) : `${short(value * 100)} %`);

// Not the conflated ones: that a newer message takes the place of an older one is what its key is for.
const LOSSES = ["dropped", "expired", "dead_lettered"];

const POWERS = Array.from({ length: 40 }, (_, power) => 2 ** power);

const CHARTS = [
  {
    title: "Messages per second",
    format: rate,
    height: 200,
    lines: [
      { key: "delivered", label: "delivered", colour: 2 },
      { key: "published", label: "published", colour: 1, fill: true },
      { key: "acknowledged", label: "acknowledged", colour: 3, dash: true },
    ],
  },
  {
    title: "Losses per second",
    format: rate,
    lines: [
      { key: "dropped", label: "dropped", colour: 6, fill: true },
      { key: "dead_lettered", label: "dead letters", colour: 3 },
      { key: "expired", label: "expired", colour: 2 },
      { key: "conflated", label: "conflated", colour: 4, dash: true },
    ],
  },
  {
    title: "Messages waiting",
    format: short,
    least: 5,
    lines: [{ key: "waiting", label: "waiting", colour: 3, fill: true }],
  },
  {
    title: "Broker latency per batch",
    format: millis,
    lines: [
      { key: "p99", label: "p99", colour: 3 },
      { key: "p95", label: "p95", colour: 2 },
      { key: "p50", label: "p50", colour: 1, fill: true },
      { key: "lag_ms", label: "event loop lag", colour: 4, dash: true },
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
    title: "Clients",
    format: short,
    least: 5,
    lines: [
      { key: "connections", label: "connections", colour: 2, dash: true },
      { key: "sessions", label: "sessions", colour: 1, fill: true },
    ],
  },
  {
    title: "Processor",
    format: percent,
    least: 0.1,
    lines: [{ key: "cpu", label: "of a core", colour: 4, fill: true }],
  },
];

// Range -> its name, seconds, and milliseconds between two questions; the first is followed second by second.
const RANGES = {
  "5m": ["5 min", 300, 0],
  "1h": ["1 h", 3600, 15_000],
  "24h": ["24 h", 86_400, 60_000],
};

const TOTALS = [
  ["published", "published"],
  ["delivered", "delivered"],
  ["redelivered", "redelivered", MEANS.redelivered],
  ["acknowledged", "acknowledged"],
  ["rejected", "rejected (NACK)", MEANS.rejected],
  ["dead_lettered", "dead-lettered", MEANS.dead_lettered],
  ["expired", "expired", MEANS.expired],
  ["dropped", "dropped", MEANS.dropped],
  ["unroutable", "without a receiver", MEANS.unroutable],
  ["duplicates", "duplicates", MEANS.duplicates],
  ["errors", "ERROR frames", MEANS.errors],
  ["logins_failed", "failed logins", MEANS.logins_failed],
  ["heartbeat_timeouts", "missed heart-beats", MEANS.heartbeat_timeouts],
  ["slow_consumers", "slow consumers ended", MEANS.slow_consumers],
];

export const overview = { title: "Overview", mount: (root, query) => new Overview(root, query) };

class Overview {
  constructor(root, query) {
    this.parts = ["head", "now", "charts", "totals"].map(() => document.createElement("div"));
    for (const part of this.parts) part.className = "stack";
    this.parts[2].className = "charts";
    root.append(...this.parts);
    this.zoomed = null;
    this.history = null;
    this.error = null;
    this.charts = CHARTS.map((spec) => {
      const figure = document.createElement("figure");
      this.parts[2].append(figure);
      return new Chart(figure, { ...spec, group: "overview", zoom: (from, to) => this.zoom(from, to) });
    });
    this.update(query);
    this.end = live.follow(() => this.draw(), { closely: true });
  }

  update(query) {
    this.range = RANGES[query.get("range")] ? query.get("range") : "5m";
    Object.assign(this, { zoomed: null, history: null, error: null });
    this.polling?.stop();
    const [, , every] = RANGES[this.range];
    const fail = (error) => {
      this.error = error;
      this.draw();
    };
    this.polling = every ? poll((signal) => this.ask(signal), every, fail) : null;
    this.draw();
  }

  async ask(signal) {
    this.history = await get("history", { range: this.range }, signal);
    this.error = null;
    this.draw();
  }

  leave() {
    this.end();
    this.polling?.stop();
    for (const each of this.charts) each.leave();
  }

  zoom(from, to) {
    this.zoomed = from === undefined ? null : [from, to];
    this.draw();
  }

  draw() {
    const { answer, samples } = live.now();
    const [head, tiles, charts, totals] = this.parts;
    const points = this.points(answer, samples);
    render(this.head(answer), head);
    charts.hidden = !answer || !points; // or they would move down when the numbers come
    if (!answer) return render(loading, tiles);
    render(
      html`${answer.ready || isTold(answer) ? nothing : notReady(answer)} ${problems(answer)} ${numbers(answer, samples)} ${this.bar(points)}`,
      tiles,
    );
    render(sums(answer), totals);
    if (!points) return undefined;
    for (const chart of this.charts) {
      const columns = chart.spec.lines.map(({ key }) => points.column(key));
      chart.set(points.at, columns, this.zoomed ?? points.window);
    }
    return undefined;
  }

  /** What the charts show; null: it is on its way. */
  points(answer, samples) {
    if (!answer) return null;
    const mark = (at) => at.map(() => answer.memory.mark);
    if (this.range === "5m") {
      const shown = samples.filter((each) => each.at > samples.at(-1).at - RANGES["5m"][1]);
      const at = shown.map((each) => each.at);
      const column = (key) => (key === "mark" ? mark(at) : shown.map((each) => each[key] ?? null));
      return { at, column, window: null };
    }
    if (!this.history) return null;
    // Minutes, and from where they are known the last seconds; from the first time that is known on, so that the lines
    // fill the axis of a young gateway, too.
    const { at: minutes, series } = this.history;
    const known = minutes.findIndex((_, place) => series.memory[place] !== null);
    const recent = samples[0]?.at ?? Infinity;
    const end = minutes.findIndex((each) => each >= recent);
    const part = known < 0 ? [0, 0] : [known, end < 0 ? minutes.length : end];
    const at = [...minutes.slice(...part), ...samples.map((each) => each.at)];
    const column = (key) =>
      key === "mark" ? mark(at) : [...(series[key] ?? []).slice(...part), ...samples.map((each) => each[key] ?? null)];
    return { at, column, window: null };
  }

  head(answer) {
    return html`<div class="page-head">
      <h1>Overview</h1>
      <p class="quiet">${answer ? `${answer.server_name} ${answer.version}, up ${duration(answer.uptime)}` : ""}</p>
    </div>`;
  }

  /** Above the charts: which time they show. */
  bar(points) {
    const names = Object.values(RANGES).map(([name]) => name);
    const choose = (name) => {
      const range = Object.keys(RANGES).find((each) => RANGES[each][0] === name);
      go("overview", { range: range === "5m" ? "" : range });
    };
    const least = this.history && points && !this.history.kept ? "The history is in memory, and begins anew at a restart." : "";
    return html`<div class="range">
      <h2>The last</h2>
      ${switcher(names, RANGES[this.range][0], choose)}
      ${
        this.zoomed
          ? html`<button type="button" @click=${() => this.zoom()}>Reset zoom</button>`
          : html`<span class="quiet p2">Drag in a chart to zoom in.</span>`
      }
      <span class="quiet p2">${least}</span> ${failure("The history cannot be shown.", this.error)}
    </div>`;
  }
}

/** The list of problems is made now and then. */
const isTold = (answer) => present(answer).some((each) => each.id === "not-ready");
const notReady = (answer) => html`<p class="message bad"><strong>Not ready:</strong> ${answer.reason}</p>`;

function numbers(answer, samples) {
  const { sessions, messages, memory, latency, losses } = answer;
  const last = samples.at(-1) ?? {};
  const turn = latency.turn_ms;
  const full = memory.mark ? memory.process / memory.mark : 0;
  const lost = LOSSES.reduce((sum, key) => sum + (last[key] ?? 0), 0);
  const all = LOSSES.reduce((sum, key) => sum + (losses?.[key] ?? 0), 0);
  const places = (query) => link("destinations", query);
  const limit = messages.octets / memory.messages_limit;
  return html`<dl class="tiles">
    ${tile("Published", rate(last.published), `${short(answer.counters.published)} in all`, {
      to: places({ sort: "-published_rate" }),
      tip: "Messages per second that clients sent in the last second.",
    })}
    ${tile("Delivered", rate(last.delivered), `${short(answer.counters.delivered)} in all`, {
      to: places({ sort: "-delivered_rate" }),
      tip: "Messages per second that went to consumers in the last second.",
    })}
    ${tile("Lost", rate(lost), all ? `${short(all)} in all` : "nothing since the start", {
      to: places({ state: "lost", sort: "-lost_rate" }),
      kind: (last.dropped ?? 0) > 0 ? "bad" : lost > 0 || answer.losing ? "wait" : "",
      tip: MEANS.lost,
    })}
    ${tile("Waiting", short(messages.waiting), `${octets(messages.octets)} in memory`, {
      to: places({ state: "waiting", sort: "-waiting" }),
      kind: limit > 0.9 ? "bad" : limit > 0.7 ? "wait" : "",
      tip: MEANS.waiting,
    })}
    ${tile("Unacknowledged", short(messages.unacknowledged), "at consumers", {
      to: places({ sort: "-unacknowledged" }),
      tip: MEANS.unacknowledged,
    })}
    ${tile("Sessions", count(sessions.total), `${count(sessions.tcp)} TCP, ${count(sessions.websocket)} WebSocket`, {
      to: link("sessions"),
      kind: answer.held ? "wait" : "",
      tip: answer.held ? `${many(answer.held, "publisher")} held back now. ${MEANS.sessions}` : MEANS.sessions,
    })}
    ${tile("Broker latency per batch", turn ? millis(turn.p99) : "idle", `event loop lag ${millis(last.lag_ms).replace(" ", "\u00a0")}`, {
      to: link("sessions", { sort: "-frames_in" }),
      kind: turn && turn.p99 > 250 ? "bad" : turn && turn.p99 > 50 ? "wait" : "",
      tip: MEANS.latency,
    })}
    ${tile("Memory", octets(memory.process), memory.mark ? `mark at ${octets(memory.mark)}` : "no mark is set", {
      to: places({ sort: "-octets" }),
      kind: full > 0.9 ? "bad" : full > 0.75 ? "wait" : "",
      tip: MEANS.memory,
    })}
  </dl>`;
}

function tile(label, value, beside, { to, kind = "", tip }) {
  return html`<div class="tile ${kind}">
    <dt><a href=${to} data-tip=${tip}>${label}</a></dt>
    <dd class="value">${value}</dd>
    <dd class="quiet">${beside}</dd>
  </div>`;
}

function sums(answer) {
  const { counters, edges, store, journal } = answer;
  const limits = Object.entries(answer.limits ?? {}).filter(([, hits]) => hits > 0);
  const totals = TOTALS.filter(([key]) => key in counters).map(([key, label, tip]) => [label, count(counters[key]), tip]);
  const met = limits.map(([name, hits]) => [name, count(hits)]);
  return html`<div class="columns">
    ${card("totals-title", "Since the start", facts(totals))}
    <div class="stack">
      ${card("holds-title", "Now", facts(held(answer)))}
      ${edges?.length ? card("edges-title", "Edges", table("Table of edges", EDGES, edges, (row) => row.edge)) : nothing}
      ${store ? card("store-title", "Store", facts(ofStore(store)), health(store)) : nothing}
      ${journal ? card("journal-title", "Journal", facts(ofJournal(journal)), health(journal)) : nothing}
      ${limits.length ? card("limits-title", "Limits that clients reached", facts(met)) : nothing}
    </div>
  </div>`;
}

const EDGES = [
  {
    key: "edge",
    label: "Edge",
    header: true,
    cell: (row) => html`${row.edge}${row.address ? html` <span class="quiet">${row.address}</span>` : nothing}`,
  },
  { key: "ready", label: "State", cell: (row) => (row.ready ? "serves" : html`<span class="badge wait">${row.address ? "has no link" : "does not run"}</span>`) },
  { key: "sessions", label: "Sessions", number: true, cell: (row) => count(row.sessions) },
  { key: "memory", label: "Memory", number: true, cell: (row) => octets(row.memory) },
  { key: "link_sent", label: "Link", number: true, cell: (row) => octets(row.link_sent + row.link_received) },
  { key: "cpu_seconds", label: "Processor", number: true, cell: (row) => duration(row.cpu_seconds) },
  {
    key: "since",
    label: "Started",
    cell: (row) => html`<span title=${row.ended && `it ended by ${row.ended}`}>${age(row.since)}, ${many(row.starts, "time")}</span>`,
  },
];

function held({ destinations, subscriptions, messages, memory, latency }) {
  return [
    ["destinations", html`<a href=${link("destinations")}>${count(destinations)}</a>`],
    ["subscriptions", html`<a href=${link("subscriptions")}>${count(subscriptions)}</a>`],
    ["scheduled", html`<a href=${link("scheduled", { sort: "due" })}>${count(messages.delayed)}</a>`],
    ["retained", html`<a href=${link("retained")}>${count(messages.retained)}</a>`],
    ["messages in memory", `${octets(messages.octets)} of ${octets(memory.messages_limit)}`, MEANS.size],
    ...(latency.queue_ms ? [["in queue, p99", millis(latency.queue_ms.p99), MEANS.queue_ms]] : []),
    ...(latency.ack_ms ? [["until ACK, p99", millis(latency.ack_ms.p99), MEANS.ack_ms]] : []),
  ];
}

function ofStore(store) {
  return [
    ["commits", count(store.commits)],
    ["a commit takes", millis(store.commits ? (store.commit_seconds / store.commits) * 1000 : null), MEANS.commit],
    ["not yet written", octets(store.pending_octets), MEANS.pending_store],
    ["only on disk", count(store.backlog), MEANS.backlog],
  ];
}

function ofJournal(journal) {
  return [
    ["rows", count(journal.rows)],
    ["not yet written", octets(journal.pending_octets), MEANS.pending_store],
    ["dropped", count(journal.dropped)],
  ];
}

const health = (part) =>
  part.failing ? html`<span class="badge bad">failing</span>` : html`<span class="badge good">works</span>`;
