// Results of `gateway pipeline run` over a day: stuck consumers, dead letters, traffic and latencies.
//
// The snapshots are files of another process; each has its own age, which is shown, since a job that stopped leaves
// its last one.

import { get } from "../api.js";
import { Chart } from "../chart.js";
import { age, clock, count, date, duration, epoch, many, micros, octets, short } from "../format.js";
import { html, nothing, render } from "../html.js";
import { table } from "../list.js";
import { cut } from "../names.js";
import { card, empty, facts, failure, headers, loading } from "../parts.js";
import { poll } from "../poll.js";
import { link } from "../router.js";

const EVERY = 10_000;
const OLD = 300; // seconds; a job that runs leaves a snapshot after each batch
const JOBS = ["consumers", "deadletters", "metrics", "sessions"];
const MOST = 50; // rows of a table here

const CHARTS = [
  {
    title: "Messages per minute",
    format: short,
    least: 10,
    lines: [
      { key: "accepted", label: "accepted", colour: 1, fill: true },
      { key: "delivered", label: "delivered", colour: 2 },
      { key: "acked", label: "acknowledged", colour: 3, dash: true },
    ],
  },
  {
    title: "Time in queue",
    format: micros,
    lines: [
      { key: "queue_p99_us", label: "p99", colour: 3 },
      { key: "queue_p50_us", label: "p50", colour: 1, fill: true },
    ],
  },
];

export const pipeline = { title: "Pipeline", mount: (root) => new Pipeline(root) };

class Pipeline {
  constructor(root) {
    this.jobs = null;
    this.found = {};
    this.error = null;
    this.charts = [];
    this.parts = ["alarms", "charts", "tables"].map(() => document.createElement("div"));
    for (const part of this.parts) part.className = "stack";
    this.parts[1].className = "charts";
    root.append(...this.parts);
    this.polling = poll(
      (signal) => this.ask(signal),
      EVERY,
      (error) => this.fail(error),
    );
    this.draw();
  }

  leave() {
    this.polling.stop();
    for (const each of this.charts) each.leave();
  }

  async ask(signal) {
    const { jobs } = await get("pipeline", {}, signal);
    for (const name of JOBS) {
      // What has not changed since is not asked for again.
      if (jobs[name] && jobs[name] !== this.jobs?.[name]) this.found[name] = await get(`pipeline/${name}`, {}, signal);
    }
    Object.assign(this, { jobs, error: null });
    this.draw();
  }

  fail(error) {
    this.error = error;
    this.draw();
  }

  draw() {
    const [alarms, , tables] = this.parts;
    const { consumers, deadletters, metrics, sessions } = this.found;
    render(
      html`<div class="page-head">
          <h1>Pipeline</h1>
          <p class="quiet">The last 24 hours, from the journal</p>
        </div>
        ${failure("The results cannot be shown.", this.error)} ${this.jobs ? this.ages() : this.error ? nothing : loading}
        ${consumers ? stuck(consumers) : nothing} ${deadletters ? letters(deadletters) : nothing}`,
      alarms,
    );
    if (metrics) this.plot(metrics.minutes);
    render(html`${metrics ? traffic(metrics) : nothing} ${sessions ? connected(sessions) : nothing}`, tables);
  }

  ages() {
    const names = Object.keys(this.jobs);
    if (!names.length) {
      return html`<div class="card empty">
        <strong>No results of the pipeline</strong>
        <span>Set <code>journal</code>, <code>archive</code> and <code>tables</code>, and run</span>
        <code>gateway pipeline run all --journal journal</code>
      </div>`;
    }
    const seconds = Date.now() / 1000 - Math.max(...Object.values(this.jobs));
    return html`${
        seconds > OLD
          ? html`<p class="message">
              <strong>These results are ${duration(seconds)} old.</strong> <code>gateway pipeline run</code> does not
              run, or the journal has nothing new.
            </p>`
          : nothing
      }
      <ul class="badges" aria-label="Age of the results">
        ${names.map((name) => {
          const old = Date.now() / 1000 - this.jobs[name] > OLD;
          return html`<li class="badge ${old ? "wait" : "good"}" title=${date(this.jobs[name])}>
            ${name}: ${age(this.jobs[name])} old
          </li>`;
        })}
      </ul>`;
  }

  plot(minutes) {
    if (!minutes.at.length) return;
    if (!this.charts.length) {
      this.charts = CHARTS.map((spec) => {
        const figure = document.createElement("figure");
        this.parts[1].append(figure);
        return new Chart(figure, { ...spec, group: "pipeline" });
      });
    }
    const times = minutes.at.map(epoch);
    const values = ({ spec }) => spec.lines.map(({ key }) => minutes[key]);
    for (const chart of this.charts) chart.set(times, values(chart));
  }
}

const where = (name) => html`<a class="mono" href=${link("destination", { name })}>${cut(name)}</a>`;
const more = (left) =>
  left > 0 ? html`<p class="quiet">${count(left)} more are in the tables of the pipeline.</p>` : nothing;

const STUCK = [
  { key: "destination", label: "Destination", header: true, cell: (row) => where(row.destination) },
  {
    key: "kind",
    label: "State",
    cell: (row) => html`<span class="badge ${row.kind === "stuck" ? "bad" : "wait"}">${row.kind}</span>`,
  },
  {
    key: "session",
    label: "Session",
    hide: 2,
    cell: (row) => html`<a class="mono" href=${link("session", { id: row.session })}>${row.session}</a>`,
  },
  { key: "principal", label: "Login", hide: 3 },
  { key: "pending", label: "Unacknowledged", number: true, hide: 2, cell: (row) => count(row.pending) },
  { key: "oldest_us", label: "Oldest waits", number: true, cell: (row) => micros(row.oldest_us) },
  { key: "since", label: "Since", hide: 3, cell: (row) => clock(epoch(row.since)) },
];

const noneStuck = empty("All consumers keep up", "No consumer keeps messages without an ACK for too long.");

function stuck(found) {
  const rows = found.raised.slice(0, MOST);
  const title = "Consumers that are stuck or slow";
  const key = (row) => `${row.gateway} ${row.epoch} ${row.session} ${row.subscription} ${row.kind}`;
  const badges = html`<div class="badges">
    <span class="badge ${found.stuck ? "bad" : "good"}">${found.stuck} stuck</span>
    <span class="badge ${found.slow ? "wait" : "good"}">${found.slow} slow</span>
  </div>`;
  const content = html`${rows.length ? table(`Table of ${title.toLowerCase()}`, STUCK, rows, key) : noneStuck}
  ${more(found.raised_left_out + found.raised.length - rows.length)}
  ${found.changes.length ? changes(found) : nothing}`;
  return card("stuck-title", title, content, badges);
}

function changes(found) {
  const change = (each) =>
    html`<li class="line">
      <time>${clock(epoch(each.ts))}</time>
      <span class="badge ${each.state === "raised" ? "wait" : "good"}">${each.state}</span>
      <span>${each.kind}</span>
      <span class="rest mono">${each.destination}</span>
    </li>`;
  return html`<details>
    <summary class="quiet">${many(found.changes.length + found.changes_left_out, "change")} in the last day</summary>
    <ul class="feed" aria-label="Changes" tabindex="0">
      ${found.changes.slice(0, MOST).map(change)}
    </ul>
  </details>`;
}

const PLACES = [
  { key: "destination", label: "Came from", header: true, cell: (row) => where(row.destination) },
  { key: "reason", label: "Reason", cell: (row) => row.reason ?? "–" },
  { key: "count", label: "Messages", number: true, cell: (row) => count(row.count) },
  { key: "last", label: "Last", hide: 2, cell: (row) => date(epoch(row.last)) },
];

function letters(found) {
  const rows = found.places.slice(0, MOST);
  const key = (row) => `${row.destination} ${row.reason}`;
  const beside = html`<span class="badge ${found.total ? "wait" : "good"}">${count(found.total)} in a day</span>
    <a href=${link("destinations", { state: "dead-letters" })}>Browse and requeue</a>`;
  const content = html`${rows.length ? table("Table of dead letters", PLACES, rows, key) : empty("No dead letters")}
  ${more(found.places_left_out + found.places.length - rows.length)} ${found.newest.length ? newest(found) : nothing}`;
  return card("letters-title", "Dead letters", content, beside);
}

function newest(found) {
  const letter = (each) =>
    html`<li>
      <div class="line">
        <time>${clock(epoch(each.ts))}</time>
        <strong class="rest mono">${each.destination}</strong>
        <span>${each.reason}</span>
        <span class="quiet">${many(each.delivery_count ?? 0, "delivery", "deliveries")}, ${octets(each.size)}</span>
      </div>
      ${headers(Object.entries(each.headers))}
    </li>`;
  return html`<details>
    <summary class="quiet">The newest</summary>
    <ul class="feed" aria-label="The newest dead letters" tabindex="0">
      ${found.newest.slice(0, MOST).map(letter)}
    </ul>
  </details>`;
}

const TRAFFIC = [
  { key: "destination", label: "Destination", header: true, cell: (row) => where(row.destination) },
  { key: "accepted", label: "Accepted", number: true, cell: (row) => count(row.accepted) },
  { key: "delivered", label: "Delivered", number: true, hide: 2, cell: (row) => count(row.delivered) },
  { key: "acked", label: "Acknowledged", number: true, hide: 3, cell: (row) => count(row.acked) },
  { key: "dead_lettered", label: "Dead letters", number: true, hide: 3, cell: (row) => count(row.dead_lettered) },
  { key: "octets", label: "Size", number: true, hide: 2, cell: (row) => octets(row.octets) },
  { key: "queue", label: "In queue, p99", number: true, cell: (row) => micros(row.queue?.p99_us) },
  { key: "ack", label: "Until ACK, p99", number: true, hide: 4, cell: (row) => micros(row.ack?.p99_us) },
];

function traffic({ totals, destinations, others }) {
  const rows = destinations.slice(0, MOST);
  const came = `${count(totals.accepted)} accepted, ${octets(totals.octets)}`;
  const went = `${count(totals.delivered)} delivered, ${octets(totals.octets_delivered)}`;
  const key = (row) => row.destination;
  const content = html`${rows.length ? table("Table of traffic", TRAFFIC, rows, key) : empty("No messages")}
  ${more(others.destinations + destinations.length - rows.length)}`;
  return card("traffic-title", "Traffic", content, html`<span class="quiet">${came}; ${went}</span>`);
}

function connected({ totals, states }) {
  const counts = { ...states, "ERROR frames": totals.errors, "heart-beats missed": totals.heartbeats_missed };
  const content = facts(Object.entries(counts).map(([name, found]) => [name, count(found)]));
  return card("sessions-title", "Sessions", content);
}
