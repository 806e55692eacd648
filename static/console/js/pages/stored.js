// Scheduled messages, retained messages and offsets, which are in no queue.  Each is a list; a click on a row shows
// all of it, and the operations on it.

import { sheet } from "../ask.js";
import { count, date, duration, octets } from "../format.js";
import { html } from "../html.js";
import { listPage } from "../list.js";
import { contents, fetched, sheetHead } from "../message.js";
import { forgetOffset, forgetRetained, removeAllScheduled, removeScheduled } from "../operations.js";
import { cut, sessionLink } from "../names.js";
import { facts } from "../parts.js";
import { link } from "../router.js";
import { tabs } from "../tabs.js";

const opener = (name, open) =>
  html`<button type="button" class="plain link mono" aria-haspopup="dialog" @click=${open}>${cut(name)}</button>`;
const yes = (on) => (on ? "yes" : "no");
const away = (due) => duration(due - Date.now() / 1000);
const since = (row) => `${row.age_is_least ? "at least " : ""}${duration(row.age)}`;

const SCHEDULED = {
  page: "scheduled",
  path: "scheduled",
  list: "scheduled",
  noun: "scheduled message",
  key: (row) => row.id,
  search: "Id or destination contains",
  filters: [{ name: "destination", label: "Destination" }],
  columns: [
    { key: "id", label: "Message", sort: true, header: true, cell: (row) => opener(row.id, () => openScheduled(row)) },
    {
      key: "destination",
      label: "Destination",
      sort: true,
      cell: (row) => html`<span class="mono">${cut(row.destination)}</span>`,
    },
    {
      key: "due",
      label: "Sent in",
      sort: true,
      cell: (row) => html`<span class="lasting" title=${date(row.due)}>${away(row.due)}</span>`,
    },
    { key: "schedule", label: "Again", hide: 2, cell: (row) => row.schedule ?? "no" },
    { key: "size", label: "Size", sort: true, number: true, hide: 2, cell: (row) => octets(row.size) },
    { key: "priority", label: "Priority", sort: true, number: true, hide: 3 },
    { key: "stored", label: "Stored", sort: true, hide: 3, cell: (row) => yes(row.stored) },
  ],
  empty: html`<strong>No scheduled messages</strong
    ><span>A message with a delay, like <code class="lasting">x-delay:60000</code>, waits here until it is sent.</span>`,
};

const RETAINED = {
  page: "retained",
  path: "retained",
  list: "retained",
  noun: "retained message",
  key: (row) => row.topic,
  search: "Topic contains",
  columns: [
    {
      key: "topic",
      label: "Topic",
      sort: true,
      header: true,
      cell: (row) => opener(row.topic, () => openRetained(row)),
    },
    { key: "size", label: "Size", sort: true, number: true, cell: (row) => octets(row.size) },
    { key: "age", label: "Age", sort: true, number: true, hide: 2, cell: since },
    { key: "stored", label: "Stored", sort: true, hide: 3, cell: (row) => yes(row.stored) },
  ],
  empty: html`<strong>No retained messages</strong
    ><span>A message with <code class="lasting">retain:set</code> stays at its topic for later subscribers.</span>`,
};

const OFFSETS = {
  page: "cursors",
  path: "cursors",
  list: "cursors",
  noun: "offset",
  key: (row) => row.name,
  search: "Name or topic contains",
  columns: [
    {
      key: "name",
      label: "Offset",
      sort: true,
      header: true,
      cell: (row) => opener(row.resume, () => openOffset(row)),
    },
    { key: "login", label: "Login", hide: 2, cell: (row) => row.login || "anonymous" },
    { key: "client_id", label: "Client id", hide: 3, cell: (row) => row.client_id || "–" },
    { key: "topic", label: "Topic", sort: true, cell: (row) => html`<span class="mono">${cut(row.topic)}</span>` },
    { key: "behind", label: "Behind", number: true, cell: (row) => count(row.behind) },
    { key: "session", label: "Read by", sort: true, hide: 2, cell: (row) => reader(row) },
  ],
  empty: html`<strong>No offsets</strong
    ><span>A client that subscribes to a topic with a stream and <code class="lasting">resume:NAME</code> goes on where it was.</span>`,
};

const reader = ({ session, login, client_id: client }) => sessionLink(session, login, client);

/** A sheet; an operation closes it, and the list follows by itself. */
function show(title, content, actions) {
  return sheet(title, (close) => {
    const act = async (action) => (await action()) && leave(close);
    const button = ([word, action]) =>
      html`<button type="button" class="danger" @click=${() => act(action)}>${word}</button>`;
    return html`<div class="stack">
      ${sheetHead(title, close)} ${content}
      <div class="actions">${actions.map(button)}</div>
    </div>`;
  });
}

/** The button that opened it goes with its row. */
function leave(close) {
  close();
  const heading = document.querySelector("#main h1");
  heading.tabIndex = -1;
  heading.focus();
}

async function openScheduled({ id }) {
  const message = await fetched(`scheduled/${encodeURIComponent(id)}`);
  if (!message) return;
  const { destination, due, schedule, session, stored, expires, size, priority } = message;
  const known = facts([
    ["Destination", html`<span class="mono">${cut(destination)}</span>`],
    ["Sent at", date(due)],
    ["Again", schedule ?? "no"],
    ["Sent by", session ? html`<a class="mono" href=${link("session", { id: session })}>${session}</a>` : "the server"],
    ["Expires", expires ? date(expires) : "never"],
    ["Size", octets(size)],
    ["Priority", priority],
    ["Stored", yes(stored)],
  ]);
  const actions = [["Delete …", () => removeScheduled(id, destination)]];
  if (!destination.includes(",")) {
    actions.push(["Delete all for this destination …", () => removeAllScheduled(destination)]);
  }
  await show(id, html`${known} ${contents(message)}`, actions);
}

async function openRetained({ topic }) {
  const message = await fetched("retained/message", { topic });
  if (!message) return;
  const known = facts([
    ["Message", html`<span class="mono">${message.id}</span>`],
    ["Age", since(message)],
    ["Expires", message.expires ? date(message.expires) : "never"],
    ["Size", octets(message.size)],
    ["Stored", yes(message.stored)],
  ]);
  await show(topic, html`${known} ${contents(message)}`, [["Delete …", () => forgetRetained(topic)]]);
}

function openOffset(row) {
  const known = facts([
    ["Login", row.login || "anonymous"],
    ["Client id", row.client_id || "–"],
    ["Topic", html`<span class="mono">${cut(row.topic)}</span>`],
    ["Behind", row.behind === null ? "not counted for a pattern" : count(row.behind)],
    ["Position", html`<span class="mono">${row.position}</span>`],
    ["Read by", reader(row)],
  ]);
  return show(row.resume, known, [["Delete …", () => forgetOffset(row)]]);
}

export const scheduled = listPage("Scheduled", SCHEDULED, tabs("scheduled"));
export const retained = listPage("Retained", RETAINED, tabs("retained"));
export const offsets = listPage("Offsets", OFFSETS, tabs("cursors"));
