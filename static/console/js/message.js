// One message: its sheet, from the reason why it is a dead letter to the last byte of its body; all of it can be copied.

import { bodyOf } from "./body.js";
import { copyButton } from "./copy.js";
import { get, Unreachable } from "./api.js";
import { age, count, date, octets } from "./format.js";
import { html, nothing } from "./html.js";
import { called, cut } from "./names.js";
import { facts } from "./parts.js";
import { link } from "./router.js";
import { notice } from "./say.js";
import { MEANS } from "./words.js";

const REASONS = {
  rejected: "Rejected by a consumer",
  "max-attempts": "Too many failed attempts",
  expired: "Expired",
  "queue-full": "No room in its queue",
};

/** Why a message died: the consumer's own words, if its NACK gave a reason, else the broker's. */
export const why = ({ dead_letter: letter, headers }) => headers.reason || (REASONS[letter.reason] ?? letter.reason);

export function marks(message) {
  return html`${message.delayed ? html`<span class="badge wait">in back-off</span>` : nothing}
  ${message.redelivered ? html`<span class="badge wait">redelivered</span>` : nothing}
  ${message.dead_letter ? html`<span class="badge bad">${message.dead_letter.reason}</span>` : nothing}`;
}

/** All of a message, and the buttons for what can be done with it. */
export function whole(message, close, buttons) {
  const { dead_letter: letter } = message;
  return html`<div class="stack">
    ${sheetHead(message.id, close)}
    <div class="badges">${marks(message)}</div>
    ${letter ? death(message) : nothing}
    ${facts([
      ...(message.sent === null ? [] : [["Arrived", date(message.sent), MEANS.arrived]]),
      ["Expires", message.expires ? date(message.expires) : "never"],
      ["Size", octets(message.size)],
      ["Priority", message.priority],
      ...(letter ? [] : [["Deliveries", count(message.deliveries)]]),
    ])}
    ${contents(message)} ${buttons === nothing ? nothing : html`<div class="actions">${buttons}</div>`}
  </div>`;
}

function death(message) {
  const { dead_letter: letter, headers } = message;
  const source = html`<a class="mono" href=${link("destination", { name: letter.source })}>${cut(called(letter.source))}</a>
    ${copyButton(letter.source, "the source")}`;
  return html`<section class="message bad" aria-label="Why it is a dead letter">
    <strong class="reason">${why(message)}</strong>
    ${headers.reason ? copyButton(headers.reason, "the reason") : nothing}
    ${facts([
      ["First failed", html`${age(letter.first_at)} ago<br /><span class="quiet">${date(letter.first_at)}</span>`],
      ["Came from", source],
      ["Failed attempts", count(letter.failures), MEANS.attempts],
      ...(headers.reason ? [["Kind", REASONS[letter.reason] ?? letter.reason]] : []),
      ...(letter.destination === letter.source ? [] : [["Sent to", html`<span class="mono">${letter.destination}</span>`]]),
    ])}
  </section>`;
}

/** The content of a sheet; null: there is none, which a notice says, or the page has changed meanwhile. */
export async function fetched(path, query) {
  const asked = location.hash;
  try {
    const found = await get(path, query);
    return location.hash === asked ? found : null;
  } catch (error) {
    // Of a gateway that is away, the banner tells.
    if (location.hash === asked && !(error instanceof Unreachable)) notice(error.message, "bad");
    return null;
  }
}

/** The top of a sheet. */
export function sheetHead(title, close) {
  return html`<div class="sheet-head">
    <h2 class="mono">${title} ${copyButton(title, "the name")}</h2>
    <button type="button" class="plain close" aria-label="Close" @click=${close}>×</button>
  </div>`;
}

/** Body and headers of a message. */
export function contents(message) {
  const notes = notesOf(message);
  return html`${bodyOf(message)} ${notes.length ? html`<p class="quiet">${notes.join(" ")}</p>` : nothing}
    <h3>Headers</h3>
    <dl class="pairs mono">
      ${Object.entries(message.headers).map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${cut(value)} ${copyButton(value, `the header ${name}`)}</dd>`,
      )}
    </dl>`;
}

function notesOf({ body, body_encoding: encoding, truncated }) {
  const found = body ? [] : ["The body is empty."];
  if (encoding === "base64") found.push("The body is no text.");
  if (truncated) found.push("Only the beginning is shown.");
  return found;
}

/** The first words of a body, for a list. */
export function preview(message) {
  return message.body_encoding === "utf-8" ? message.body.slice(0, 200) : `${octets(message.size)} of binary data`;
}

