// Subscriptions of all sessions.

import { count, lasting } from "../format.js";
import { html, nothing } from "../html.js";
import { listPage } from "../list.js";
import { storedBadge } from "../losses.js";
import { cut, sessionLink } from "../names.js";
import { link } from "../router.js";
import { MEANS } from "../words.js";

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
      cell: (row) => html`<a class="mono" href=${link("destination", { name: row.target })}>${cut(row.destination)}</a>`,
    },
    {
      key: "login",
      label: "Client",
      sort: true,
      cell: (row) => sessionLink(row.session, row.login, row.client_id),
    },
    {
      key: "ack",
      label: "Ack",
      sort: true,
      hide: 4,
      cell: (row) =>
        html`<span class="ack">${row.ack}</span> ${row.durable ? storedBadge({ ...row, kind: "queue", delayed: 0 }) : nothing}
        ${row.stalled ? html`<span class="badge wait" title=${MEANS.stalled}>stalled</span>` : nothing}
        ${row.browser ? html`<span class="badge">browser</span>` : nothing}`,
    },
    {
      key: "selector",
      label: "Selector",
      hide: 2,
      cell: (row) => (row.selector ? html`<code class="selector">${row.selector}</code>` : "–"),
    },
    { key: "prefetch", label: "Prefetch", tip: MEANS.prefetch, sort: true, number: true, hide: 4, cell: (row) => count(row.prefetch) },
    {
      key: "unacknowledged",
      label: "Unacknowledged",
      tip: MEANS.unacknowledged,
      sort: true,
      number: true,
      hide: 2,
      cell: (row) => count(row.unacknowledged),
    },
    {
      key: "oldest_unacknowledged_age",
      label: "Oldest",
      tip: "How long the consumer has had its oldest unacknowledged message.",
      sort: true,
      number: true,
      hide: 4,
      cell: (row) => lasting(row.oldest_unacknowledged_age),
    },
    { key: "delivered", label: "Delivered", sort: true, number: true, cell: (row) => count(row.delivered) },
  ],
  empty: html`<strong>No subscriptions</strong><a href=${link("playground")}>Subscribe from the playground</a>`,
};

/** The columns for where the session and its login, or the destination, are clear. */
export const columnsWithout = (...keys) => SPEC.columns.filter((each) => !keys.includes(each.key));

export const subscriptions = listPage("Subscriptions", SPEC);
