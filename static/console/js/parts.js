// Templates that many pages have: facts, and what stands where there is nothing to show.

import { sentence } from "./format.js";
import { html, nothing } from "./html.js";
import { term } from "./tips.js";

/** Names and values, side by side; a third is what the name means. */
export function facts(pairs, classes = "facts") {
  return html`<dl class=${classes}>
    ${pairs.map(
      ([name, value, tip]) =>
        html`<div>
          <dt>${term(name, tip)}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

/** Headers of a frame or of a message; keys of a policy or a rule. */
export function headers(entries) {
  return html`<dl class="pairs mono">
    ${entries.map(
      ([name, value]) =>
        html`<dt>${name}</dt>
          <dd>${value}</dd>`,
    )}
  </dl>`;
}

/** A part, under its name. */
export function card(id, title, content, beside = nothing) {
  return html`<section class="card" aria-labelledby=${id}>
    <div class="card-head">
      <h2 id=${id} tabindex="-1">${title}</h2>
      ${beside}
    </div>
    ${content}
  </section>`;
}

export const loading = html`<p class="quiet" role="status">Loading …</p>`;

export function empty(title, text = nothing) {
  return html`<div class="empty"><strong>${title}</strong><span>${text}</span></div>`;
}

/** What could not be shown, and why, in the gateway's words; nothing without an error. */
export function failure(title, error) {
  if (!error) return nothing;
  return html`<p class="message bad" role="alert"><strong>${title}</strong> ${sentence(error.message)}</p>`;
}

/** One of a few, side by side. */
export function switcher(names, chosen, choose) {
  return html`<div class="switch" role="group">
    ${names.map(
      (each) =>
        html`<button type="button" aria-pressed=${String(each === chosen)} @click=${() => choose(each)}>${each}</button>`,
    )}
  </div>`;
}
