// Queues and topics: thousands of them, a page at a time.

import { count, lasting, octets } from "../format.js";
import { html, nothing } from "../html.js";
import { listPage } from "../list.js";
import { link } from "../router.js";
import { tabs } from "../tabs.js";

const KINDS = [
  ["", "All"],
  ["queue", "Queues"],
  ["topic", "Topics"],
  ["pattern", "Patterns"],
];
const STATES = [
  ["", "Any"],
  ["waiting", "Messages wait"],
  ["full", "Full"],
  ["no-consumer", "No consumer"],
];
STATES.push(["dead-letters", "Dead letters"]);

const SPEC = {
  page: "destinations",
  path: "destinations",
  list: "destinations",
  noun: "destination",
  key: (row) => row.name,
  search: "Name contains",
  filters: [
    { name: "kind", label: "Kind", options: KINDS },
    { name: "state", label: "State", options: STATES },
  ],
  columns: [
    {
      key: "name",
      label: "Name",
      sort: true,
      header: true,
      cell: (row) => html`<a class="mono" href=${link("destination", { name: row.name })}>${row.name}</a>`,
    },
    { key: "state", label: "State", hide: 2, cell: (row) => badges(row) },
    { key: "waiting", label: "Waiting", sort: true, number: true, cell: (row) => count(row.waiting) },
    { key: "oldest_age", label: "Oldest", sort: true, number: true, hide: 2, cell: (row) => oldest(row) },
    {
      key: "unacknowledged",
      label: "Without ACK",
      sort: true,
      number: true,
      hide: 3,
      cell: (row) => count(row.unacknowledged),
    },
    { key: "delayed", label: "In back-off", sort: true, number: true, hide: 3, cell: (row) => count(row.delayed) },
    { key: "octets", label: "Size", sort: true, number: true, hide: 2, cell: (row) => octets(row.octets) },
    { key: "subscriptions", label: "Consumers", sort: true, number: true, cell: (row) => count(row.subscriptions) },
  ],
  empty: html`<strong>No destinations yet</strong
    ><span>A queue or topic exists as soon as a client sends to it or subscribes.</span>
    <a href=${link("playground")}>Try it in the playground</a>`,
};

/** How long the oldest message has waited. */
export function oldest(row) {
  const title = row.oldest_age_is_least ? "It was there when the gateway started, so it may be much older." : nothing;
  return html`<span title=${title}>${lasting(row.oldest_age, row.oldest_age_is_least)}</span>`;
}

/** What is worth a second look, in words. */
export function badges(row) {
  const alone = row.waiting && !row.subscriptions && !row.dead_letters;
  return html`<span class="badges"
    ><span class="badge">${row.kind}</span> ${row.full ? html`<span class="badge bad">full</span>` : nothing}
    ${row.dead_letters ? html`<span class="badge wait">dead letters</span>` : nothing}
    ${alone ? html`<span class="badge wait">no consumer</span>` : nothing}
    ${row.durable ? html`<span class="badge">durable</span>` : nothing}
    ${row.log ? html`<span class="badge">stream</span>` : nothing}</span
  >`;
}

export const destinations = listPage("Destinations", SPEC, tabs("destinations"));
