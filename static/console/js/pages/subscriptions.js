// Subscriptions of all sessions.

import { count, lasting } from "../format.js";
import { html, nothing } from "../html.js";
import { listPage } from "../list.js";
import { link } from "../router.js";

const SPEC = {
  page: "subscriptions",
  path: "subscriptions",
  list: "subscriptions",
  noun: "subscription",
  key: (row) => `${row.session} ${row.id} ${row.durable}`,
  search: "Destination, login or session contains",
  filters: [
    { name: "destination", label: "Destination" },
    { name: "login", label: "Login" },
    { name: "session", label: "Session" },
  ],
  columns: [
    {
      key: "destination",
      label: "Destination",
      sort: true,
      header: true,
      cell: (row) => html`<a class="mono" href=${link("destination", { name: row.target })}>${row.destination}</a>`,
    },
    {
      key: "session",
      label: "Session",
      sort: true,
      cell: (row) =>
        row.session ? html`<a class="mono" href=${link("session", { id: row.session })}>${row.session}</a>` : "none",
    },
    { key: "login", label: "Login", sort: true, hide: 3, cell: (row) => row.login || "anonymous" },
    {
      key: "ack",
      label: "Ack",
      sort: true,
      hide: 3,
      cell: (row) =>
        html`${row.ack} ${row.durable ? html`<span class="badge">durable ${row.durable}</span>` : nothing}
        ${row.browser ? html`<span class="badge">browser</span>` : nothing}`,
    },
    {
      key: "selector",
      label: "Selector",
      hide: 2,
      cell: (row) => (row.selector ? html`<code>${row.selector}</code>` : "–"),
    },
    { key: "prefetch", label: "Prefetch", sort: true, number: true, hide: 3, cell: (row) => count(row.prefetch) },
    {
      key: "unacknowledged",
      label: "Without ACK",
      sort: true,
      number: true,
      hide: 2,
      cell: (row) => count(row.unacknowledged),
    },
    {
      key: "oldest_unacknowledged_age",
      label: "Oldest",
      sort: true,
      number: true,
      hide: 3,
      cell: (row) => lasting(row.oldest_unacknowledged_age),
    },
    { key: "delivered", label: "Delivered", sort: true, number: true, cell: (row) => count(row.delivered) },
  ],
  empty: html`<strong>No subscriptions</strong><a href=${link("playground")}>Subscribe from the playground</a>`,
};

/** The columns for where the session and its login, or the destination, are clear. */
export const columnsWithout = (...keys) => SPEC.columns.filter((each) => !keys.includes(each.key));

export const subscriptions = listPage("Subscriptions", SPEC);
