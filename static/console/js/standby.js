// A standby of a cluster has no messages and no clients.  Its console says so in a banner on every page, and in place
// of the pages that could show empty lists alone; both lead to the primary.

import { html, render } from "./html.js";
import { follow, now } from "./live.js";

const $ = (id) => document.getElementById(id);

/** Whether this gateway is a standby, by the last answer of GET /overview. */
export const isStandby = () => Boolean(now().answer?.standby);

/** A link to the same page of another node's console; or its name, where the address of its pages is not known. */
export function consoleOf(url, words) {
  if (!/^https?:/.test(url ?? "")) return html`<span>${words}</span>`;
  return html`<a href=${`${url}/console/${location.hash}`}>${words}</a>`;
}

const where = ({ primary, address, url }) =>
  primary
    ? html`The primary is ${consoleOf(url, primary)} at <span class="mono">${address}</span>.`
    : html`The cluster has no primary for now.`;

/** The banner. */
export function show() {
  const standby = now().answer?.standby;
  $("standby").hidden = !standby;
  if (!standby) return;
  render(
    html`<p><strong>${standby.node} is a standby:</strong> messages and clients are at the primary. ${where(standby)}</p>`,
    $("standby"),
  );
}

/** In place of a page of that title. */
export function inPlaceOf(title, root) {
  const draw = () => {
    const standby = now().answer?.standby;
    if (!standby) return; // the page itself comes
    render(
      html`<div class="page-head"><h1>${title}</h1></div>
        <div class="card empty">
          <strong>Nothing to show on a standby</strong>
          <span>The messages are in the log of the cluster, and the clients at the primary.</span>
          <span>${where(standby)}</span>
          <a href="#/cluster">Nodes of the cluster</a>
        </div>`,
      root,
    );
  };
  draw();
  return { update: draw, leave: follow(draw) };
}

addEventListener("hashchange", show); // its link is to the same page
