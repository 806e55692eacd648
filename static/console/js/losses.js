// Losses: what a destination dropped, let expire, replaced or made dead letters of; and what a crash would take.

import { count, duration, short } from "./format.js";
import { html, nothing } from "./html.js";

const KINDS = [
  ["dropped", "dropped"],
  ["dead_lettered", "dead-lettered"],
  ["expired", "expired"],
  ["conflated", "conflated"],
];
const REASONS = { "queue-full": "no room", rejected: "rejected by a NACK", "max-attempts": "too many attempts" };

/** What was lost, in words: "64,708 dropped, 3 expired". */
export const losses = (row) =>
  KINDS.filter(([key]) => row[key])
    .map(([key, word]) => `${count(row[key])} ${word}${key === "dropped" ? reasons(row.drops) : ""}`)
    .join(", ");

/** How bad it is: what is dropped is gone, what is replaced was meant to be. */
function severity({ losing, dropped, present_losses: now }) {
  if (now.dropped) return "bad";
  return losing || dropped ? "wait" : "";
}

/** A badge where something is lost now, a quieter one where it was. */
export function lossBadge(row) {
  if (!row.lost) return nothing;
  const now = row.present_losses;
  const words = now.dropped ? "loses messages" : losses(now) || (row.dropped ? "has lost messages" : losses(row));
  return html`<span class="badge ${severity(row)}" title="${losses(row)}${lately(row)}">${words}</span>`;
}

const lately = ({ lost_age: age }) => (age === null ? "" : `; the last one ${duration(age)} ago`);

/** The cell of a list: the rate while it loses, and the total below. */
export function lossCell(row) {
  if (!row.lost) return "0";
  return html`<span class="${severity(row)}-text" title=${losses(row)}>${short(row.lost_rate)}/s</span>
    <span class="quiet under">${short(row.lost)} in all</span>`;
}

/** At the top of a destination's page. */
export function lossNotice(row) {
  if (!row.lost) return nothing;
  const kind = severity(row);
  if (!kind) return nothing;
  const now = row.present_losses;
  const verb = now.dropped ? "loses" : row.losing ? "fails to deliver" : "has lost";
  const all = losses(row);
  const rate = `${short(row.lost_rate)} per second now`;
  const same = KINDS.every(([key]) => (now[key] ?? 0) === (row[key] ?? 0)); // nothing was lost before
  const present = same ? `${all}, ${rate}` : `${losses(now)}, ${rate}; in all ${all}`;
  return html`<p class="message ${kind}">
    <strong>This destination ${verb} messages:</strong>
    ${row.losing ? present : `${all}${lately(row)}`}.
    ${remedy(row)}
  </p>`;
}

/** Why messages were dropped: the only reason, or each with its number. */
function reasons(drops) {
  const all = Object.entries(drops ?? {}).map(([name, number]) => [REASONS[name] ?? name, count(number)]);
  if (!all.length) return "";
  return ` (${all.length === 1 ? all[0][0] : all.map(([word, number]) => `${number} ${word}`).join(", ")})`;
}

function remedy({ losing, dropped, present_losses: now, policy }) {
  if (!(losing ? now.dropped : dropped) || !policy) return nothing;
  const key = policy.when_full?.startsWith("drop") ? "when_full" : "slow_consumer";
  return html`The policy says <code>${key} = "${policy[key]}"</code>: start consumers, raise its limits, or choose
    another value.`;
}

/** What a crash would leave of what is there: "stored 0 of 94,700"; an empty one says what it does with the next. */
export function storedBadge(row) {
  if (row.kind !== "queue" || !(row.durable || row.stored || row.durable_subscription)) return nothing;
  const all = row.waiting + row.delayed + row.unacknowledged;
  // Of a subscription, `durable` is its name, and its policy may say "as-sent".
  const empty = row.durable === true ? "It is empty; what comes is stored." : "It outlives its session, and is empty.";
  if (!all) return row.durable ? html`<span class="badge" title=${empty}>durable</span>` : nothing;
  const safe = row.stored >= all;
  const title = safe
    ? "All of its messages outlive a restart."
    : `A restart or a crash takes the other ${count(all - row.stored)}: they are in memory only.`;
  return html`<span class="badge ${safe ? "good" : "wait"}" title=${title}
    >stored ${count(Math.min(row.stored, all))} of ${count(all)}</span
  >`;
}
