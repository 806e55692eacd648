// Connected clients.

import { age, clock, count, octets } from "../format.js";
import { html } from "../html.js";
import { listPage } from "../list.js";
import { link } from "../router.js";

const TRANSPORTS = [
  ["", "All"],
  ["tcp", "TCP"],
  ["websocket", "WebSocket"],
];

const SPEC = {
  page: "sessions",
  path: "sessions",
  list: "sessions",
  noun: "session",
  key: (row) => row.id,
  search: "Id, login, client id or address contains",
  filters: [
    { name: "transport", label: "Transport", options: TRANSPORTS },
    { name: "login", label: "Login" },
  ],
  columns: [
    {
      key: "id",
      label: "Session",
      sort: true,
      header: true,
      cell: (row) => html`<a class="mono" href=${link("session", { id: row.id })}>${row.id}</a>`,
    },
    { key: "login", label: "Login", sort: true, cell: (row) => row.login || "anonymous" },
    { key: "client_id", label: "Client id", sort: true, hide: 3, cell: (row) => row.client_id || "–" },
    { key: "transport", label: "Transport", sort: true, hide: 2 },
    { key: "peer", label: "Address", sort: true, hide: 2, cell: (row) => html`<span class="mono">${row.peer}</span>` },
    {
      key: "connected_at",
      label: "Connected",
      sort: true,
      hide: 3,
      cell: (row) => html`<span title=${clock(row.connected_at)}>${age(row.connected_at)}</span>`,
    },
    {
      key: "subscriptions",
      label: "Subscr.",
      sort: true,
      number: true,
      hide: 3,
      cell: (row) => count(row.subscriptions),
    },
    {
      key: "unacknowledged",
      label: "Without ACK",
      sort: true,
      number: true,
      hide: 2,
      cell: (row) => count(row.unacknowledged),
    },
    {
      key: "pending_octets",
      label: "Waiting to be read",
      sort: true,
      number: true,
      hide: 3,
      cell: (row) => octets(row.pending_octets),
    },
    { key: "frames_in", label: "Frames in", sort: true, number: true, hide: 3, cell: (row) => count(row.frames_in) },
    { key: "delivered", label: "Delivered", sort: true, number: true, cell: (row) => count(row.delivered) },
  ],
  empty: html`<strong>No client is connected</strong><span>A client is listed here once it got its CONNECTED frame.</span>
    <a href=${link("playground")}>Connect from the playground</a>`,
};

export const sessions = listPage("Sessions", SPEC);
