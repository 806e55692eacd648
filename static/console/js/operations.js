// Operations on messages: each asks first, says what will happen, and tells how it ended.

import { post, remove } from "./api.js";
import { ask } from "./ask.js";
import { many } from "./format.js";
import { html, nothing } from "./html.js";
import { attempt, notice } from "./say.js";

const target = html`<label
  >To the destination
  <input class="mono" name="target" required placeholder="/queue/name" autocapitalize="off" spellcheck="false"
/></label>`;
const selection = html`<label
  >Only messages that match this selector (empty: all)
  <input class="mono" name="selector" placeholder="JMSPriority > 4" autocapitalize="off" spellcheck="false"
/></label>`;

/** What was refused, one by one, is worth reading; it is said with the first reason. */
function outcome(number, word, { refused, stopped }) {
  if (stopped) notice(`Not all messages were ${word}: ${stopped}`, "bad");
  if (refused?.length) notice(`${many(refused.length, "message")} stayed: ${refused[0].error}`, "bad");
  return `${many(number, "message")} ${word}`;
}

const chosen = (fields) => (fields.selector?.trim() ? { selector: fields.selector.trim() } : {});

/** A selector that takes nothing is most likely not what was meant. */
const unmatched = (destination, selector) => `No message that waits in ${destination} matches the selector ${selector}`;

export async function purge(destination) {
  const fields = await ask({
    title: "Purge",
    text: html`<p>Messages that wait in <code>${destination}</code> are deleted. This cannot be undone.</p>`,
    fields: selection,
    yes: "Delete them",
    danger: true,
  });
  if (!fields) return false;
  const { selector } = chosen(fields);
  return attempt(
    () => post("queues/purge", { destination, selector }),
    ({ purged }) => (selector && !purged ? unmatched(destination, selector) : `${many(purged, "message")} deleted`),
  );
}

export async function moveAll(source) {
  const fields = await ask({
    title: "Move messages",
    text: html`<p>Messages that wait in <code>${source}</code> move to another destination, in their order.</p>`,
    fields: html`${target}${selection}`,
    yes: "Move them",
  });
  return fields && move({ source, target: fields.target.trim(), ...chosen(fields) });
}

export async function redriveAll(destination) {
  const fields = await ask({
    title: "Re-drive dead letters",
    text: html`<p>
      All dead letters in <code>${destination}</code> go back to where they came from, with a fresh count of failures.
    </p>`,
    yes: "Re-drive them",
  });
  return fields && redrive({ destination });
}

const move = (body) =>
  attempt(
    () => post("queues/move", body),
    (answer) => {
      const found = answer.moved + answer.refused.length > 0 || answer.stopped;
      return body.selector && !found ? unmatched(body.source, body.selector) : outcome(answer.moved, "moved", answer);
    },
  );
const redrive = (body) =>
  attempt(
    () => post("queues/redrive", body),
    (answer) => outcome(answer.redriven, "re-driven", answer),
  );

export async function removeSome(destination, ids) {
  const fields = await ask({
    title: `Delete ${many(ids.length, "message")}`,
    text: html`<p>
      ${ids.length === 1 ? html`<code>${ids[0]}</code> is deleted` : "They are deleted"} from
      <code>${destination}</code>. This cannot be undone.
    </p>`,
    yes: "Delete",
    danger: true,
  });
  if (!fields) return false;
  return attempt(
    () => post("messages/delete", { destination, ids }),
    ({ deleted, missing }) =>
      `${many(deleted, "message")} deleted${missing.length ? `, ${missing.length} had gone already` : ""}`,
  );
}

export async function moveSome(source, ids) {
  const fields = await ask({
    title: `Move ${many(ids.length, "message")}`,
    text: nothing,
    fields: target,
    yes: "Move",
  });
  return fields && move({ source, target: fields.target.trim(), ids });
}

export async function redriveSome(destination, ids) {
  const fields = await ask({
    title: `Re-drive ${many(ids.length, "message")}`,
    text: html`<p>Back to where ${ids.length === 1 ? "it" : "each"} came from, with a fresh count of failures.</p>`,
    yes: "Re-drive",
  });
  return fields && redrive({ destination, ids });
}

export async function removeScheduled(id, destination) {
  const fields = await ask({
    title: "Delete a scheduled message",
    text: html`<p><code>${id}</code> is not sent to <code>${destination}</code>. This cannot be undone.</p>`,
    yes: "Delete",
    danger: true,
  });
  return fields && attempt(() => remove(`scheduled/${encodeURIComponent(id)}`), "The scheduled message is deleted");
}

export async function removeAllScheduled(destination) {
  const fields = await ask({
    title: "Delete scheduled messages",
    text: html`<p>
      All messages that are scheduled for <code>${destination}</code> are deleted. This cannot be undone.
    </p>`,
    yes: "Delete them",
    danger: true,
  });
  return (
    fields &&
    attempt(
      () => remove("scheduled", { destination }),
      ({ cancelled }) => `${many(cancelled, "scheduled message")} deleted`,
    )
  );
}

export async function forgetRetained(topic) {
  const fields = await ask({
    title: "Delete a retained message",
    text: html`<p>Later subscribers of <code>${topic}</code> do not get it. This cannot be undone.</p>`,
    yes: "Delete",
    danger: true,
  });
  return fields && attempt(() => remove("retained/message", { topic }), "The retained message is deleted");
}

export async function forgetOffset({ name, resume, topic }) {
  const fields = await ask({
    title: "Delete an offset",
    text: html`<p>
      A client that comes back to <code>${topic}</code> as <code>${resume}</code> begins anew, and misses the
      messages that it has not read.
    </p>`,
    yes: "Delete",
    danger: true,
  });
  return fields && attempt(() => remove("cursor", { name }), "The offset is deleted");
}
