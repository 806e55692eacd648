// Connected clients.

import { age, clock, count, octets } from "../format.js";
import { html } from "../html.js";
import { listPage } from "../list.js";
import { sessionLink } from "../names.js";
import { link } from "../router.js";
import { MEANS } from "../words.js";

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
      key: "login",
      label: "Client",
      sort: true,
      header: true,
      cell: (row) => sessionLink(row.id, row.login, row.client_id),
    },
    { key: "transport", label: "Transport", sort: true, hide: 2 },
    { key: "peer", label: "Address", sort: true, hide: 2, cell: (row) => html`<span class="mono address">${row.peer}</span>` },
    {
      key: "connected_at",
      label: "Connected",
      sort: true,
      hide: 3,
      cell: (row) => html`<span class="lasting" title=${clock(row.connected_at)}>${age(row.connected_at)}</span>`,
    },
    {
      key: "subscriptions",
      label: "Subscriptions",
      sort: true,
      number: true,
      hide: 4,
      cell: (row) => count(row.subscriptions),
    },
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
      key: "pending_octets",
      label: "Waiting to be read",
      tip: MEANS.pending,
      sort: true,
      number: true,
      hide: 4,
      cell: (row) => octets(row.pending_octets),
    },
    { key: "frames_in", label: "Frames in", tip: MEANS.frames_in, sort: true, number: true, hide: 4, cell: (row) => count(row.frames_in) },
    { key: "delivered", label: "Frames out", tip: MEANS.delivered_frames, sort: true, number: true, cell: (row) => count(row.delivered) },
  ],
  empty: html`<strong>No client is connected</strong><span>A client is listed here once it got its CONNECTED frame.</span>
    <a href=${link("playground")}>Connect from the playground</a>`,
};

export const sessions = listPage("Sessions", SPEC);
