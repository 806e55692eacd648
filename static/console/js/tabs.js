// The pages that are one entry of the menu: what clients send to, and what the gateway keeps of it elsewhere.

import { html } from "./html.js";
import { link } from "./router.js";

const TABS = [
  ["destinations", "Queues and topics"],
  ["scheduled", "Scheduled", { sort: "due" }],
  ["retained", "Retained"],
  ["cursors", "Offsets"],
];

/** Links to all of them; `here` is the one that is shown. */
export function tabs(here) {
  const item = ([name, title, query]) =>
    html`<li><a href=${link(name, query)} aria-current=${name === here ? "page" : "false"}>${title}</a></li>`;
  return html`<ul class="tabs" aria-label="Lists">
    ${TABS.map(item)}
  </ul>`;
}
