// Queues and topics: thousands of them, a page at a time.

import { count, lasting, octets, short } from "../format.js";
import { html, nothing } from "../html.js";
import { listPage } from "../list.js";
import { lossBadge, lossCell, storedBadge } from "../losses.js";
import { destinationLink } from "../names.js";
import { link } from "../router.js";
import { spark } from "../spark.js";
import { tabs } from "../tabs.js";
import { MEANS } from "../words.js";

const MOST_SERIES = 100; // rows that the gateway sends with their last five minutes
const KINDS = [
  ["", "All"],
  ["queue", "Queues"],
  ["topic", "Topics"],
  ["pattern", "Patterns"],
];
const STATES = [
  ["", "Any"],
  ["waiting", "Messages wait"],
  ["losing", "Loses messages"],
  ["lost", "Has lost messages"],
];
STATES.push(["full", "Full"], ["no-consumer", "No consumer"], ["dead-letters", "Dead letters"]);

const rate = (key, label, tip, hide) => ({ key, label, tip, hide, sort: true, number: true, cell: (row) => short(row[key]) });

const SPEC = {
  page: "destinations",
  path: "destinations",
  list: "destinations",
  noun: "destination",
  key: (row) => row.name,
  search: "Name contains",
  fixed: (limit) => ({ series: limit <= MOST_SERIES }),
  filters: [
    { name: "kind", label: "Kind", options: KINDS },
    { name: "state", label: "State", options: STATES },
  ],
  columns: [
    { key: "title", label: "Name", sort: true, header: true, cell: (row) => html`${destinationLink(row)} ${badges(row)}` },
    { key: "series", label: "Five minutes", hide: 3, cell: (row) => spark(row.series) },
    rate("published_rate", "In /s", MEANS.published),
    rate("delivered_rate", "Out /s", MEANS.delivered, 2),
    rate("acknowledged_rate", "Ack /s", MEANS.acknowledged, 4),
    { key: "lost", label: "Lost", tip: MEANS.lost, sort: true, number: true, hide: 2, cell: lossCell },
    { key: "waiting", label: "Waiting", tip: MEANS.waiting, sort: true, number: true, cell: waiting },
    { key: "oldest_age", label: "Oldest", tip: MEANS.oldest, sort: true, number: true, hide: 2, cell: oldest },
    {
      key: "unacknowledged",
      label: "Unacknowledged",
      tip: MEANS.unacknowledged,
      sort: true,
      number: true,
      hide: 4,
      cell: (row) => count(row.unacknowledged),
    },
    {
      key: "octets",
      label: "Size",
      tip: MEANS.size,
      sort: true,
      number: true,
      hide: 4,
      cell: (row) => (row.kind === "queue" ? octets(row.octets) : "–"),
    },
    {
      key: "consumers",
      label: "Consumers",
      tip: MEANS.consumers,
      sort: true,
      number: true,
      hide: 2,
      cell: (row) => count(row.consumers),
    },
  ],
  empty: html`<strong>No destinations yet</strong
    ><span>A queue or topic exists as soon as a client sends to it or subscribes.</span>
    <a href=${link("playground")}>Try it in the playground</a>`,
};

/** A topic keeps nothing that could wait. */
function waiting(row) {
  if (row.kind !== "queue") return "–";
  if (!row.delayed) return count(row.waiting);
  return html`${count(row.waiting)}<span class="quiet under">${short(row.delayed)} in back-off</span>`;
}

/** How long the oldest message has waited. */
export function oldest(row) {
  const title = row.oldest_age_is_least ? "It was there when the gateway started, so it may be much older." : nothing;
  return html`<span title=${title}>${lasting(row.oldest_age, row.oldest_age_is_least)}</span>`;
}

/** What is worth a second look, in words. */
export function badges(row) {
  const alone = row.waiting && !row.subscriptions && !row.dead_letters;
  return html`<span class="badges"
    ><span class="badge">${row.durable_subscription ? "subscription" : row.kind}</span> ${
      row.full ? html`<span class="badge bad">full</span>` : nothing
    }
    ${lossBadge(row)} ${row.dead_letters ? html`<span class="badge wait">dead letters</span>` : nothing}
    ${alone ? html`<span class="badge wait">no consumer</span>` : nothing} ${storedBadge(row)}
    ${row.log ? html`<span class="badge" title=${MEANS.kept}
          >keeps ${short(row.log.messages)} ${row.durable ? "on disk" : "in memory"}</span
        >` : nothing}</span
  >`;
}

export const destinations = listPage("Destinations", SPEC, tabs("destinations"));
