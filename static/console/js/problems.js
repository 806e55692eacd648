// What is wrong now, the worst first: each problem with where it is, since when, and what to do about it.

import { age, clock } from "./format.js";
import { html, nothing, repeat } from "./html.js";
import { isDismissed } from "./memory.js";
import { card } from "./parts.js";

const FIRST = 5; // that are shown at once
const KINDS = { critical: "bad", warning: "wait", info: "" };

/** Those of the last overview; the banner tells of messages in memory unless it was closed. */
export const present = (answer) =>
  (answer?.problems ?? []).filter((each) => each.id !== "memory-only" || isDismissed());

/** What the head of the page counts. */
export const isWrong = ({ severity }) => severity !== "info";

export function problems(answer) {
  const found = present(answer);
  if (!found.length) return nothing;
  const wrong = found.filter(isWrong).length;
  const told = found.length - wrong;
  const beside = html`${wrong ? html`<span class="badge ${KINDS[found[0].severity]}">${wrong}</span>` : nothing}
    ${told ? html`<span class="badge">${told} info</span>` : nothing}`;
  const list = (some) => html`<ol class="problems">
    ${repeat(some, (each) => `${each.id} ${each.target}`, item)}
  </ol>`;
  const rest = found.slice(FIRST);
  const more = html`<details class="more">
    <summary class="quiet">${rest.length} more</summary>
    ${list(rest)}
  </details>`;
  const content = html`${list(found.slice(0, FIRST))} ${rest.length ? more : nothing}`;
  return card("problems-title", "Present problems", content, beside);
}

function item({ severity, title, what, since, link, remedy, page }) {
  return html`<li>
    <span class="badge ${KINDS[severity]}">${severity}</span>
    <div>
      <p><strong>${link ? html`<a href=${link}>${title}</a>` : title}:</strong> <span>${what}.</span></p>
      <p class="quiet">
        <b>What to do:</b> ${remedy} ${page ? html`More in <code>${page}</code>.` : nothing}
      </p>
    </div>
    <span class="quiet since" title="since ${clock(since)}">for ${age(since)}</span>
  </li>`;
}
