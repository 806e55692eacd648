// Operations on messages: each asks first, says what will happen, and tells how it ended.

import { get, post, remove } from "./api.js";
import { ask } from "./ask.js";
import { count, many } from "./format.js";
import { html, nothing } from "./html.js";
import { fetched } from "./message.js";
import { called } from "./names.js";
import { attempt, notice } from "./say.js";

const target = html`<label
  >To the destination
  <input class="mono" name="target" required placeholder="/queue/name" autocapitalize="off" spellcheck="false"
/></label>`;
const created = html`<p class="quiet">A queue that does not exist is created, so check the name.</p>`;
const selection = (given) =>
  html`<label
    >Only messages that match this selector (empty: all)
    <input
      class="mono"
      name="selector"
      value=${given}
      placeholder="JMSPriority > 4"
      autocapitalize="off"
      spellcheck="false"
  /></label>`;
const held = (row) => many(row.waiting + row.delayed, "message");

/** What was refused, one by one, is worth reading; it is said with the first reason. */
function outcome(number, word, { refused, stopped }) {
  if (stopped) notice(`Not all messages were ${word}: ${stopped}`, "bad");
  if (refused?.length) notice(`${many(refused.length, "message")} stayed: ${refused[0].error}`, "bad");
  return `${many(number, "message")} ${word}`;
}

const chosen = (fields) => (fields.selector?.trim() ? { selector: fields.selector.trim() } : {});

/** A selector that takes nothing is most likely not what was meant. */
const unmatched = (destination, selector) => `No message that waits in ${destination} matches the selector ${selector}`;

/** `selector`: the one that the page shows, so that what is seen is what goes. */
export async function purge(row, selector) {
  const destination = row.name;
  const fields = await ask({
    title: "Purge",
    text: html`<p>
      ${row.waiting + row.delayed === 1 ? "One message waits" : `${held(row)} wait`} in <code>${row.title}</code>, and
      are deleted. This cannot be undone.
    </p>`,
    fields: selection(selector),
    yes: "Delete them",
    danger: true,
  });
  if (!fields) return false;
  const asked = chosen(fields).selector;
  return attempt(
    () => post("queues/purge", { destination, selector: asked }),
    ({ purged }) => (asked && !purged ? unmatched(row.title, asked) : `${many(purged, "message")} deleted`),
  );
}

export async function moveAll(row, selector) {
  const fields = await ask({
    title: "Move messages",
    text: html`<p>
      The messages that wait in <code>${row.title}</code> (${count(row.waiting + row.delayed)}) move to another
      destination, in their order.
    </p>`,
    fields: html`${target}${created}${selection(selector)}`,
    yes: "Move them",
  });
  return fields && move({ source: row.name, target: fields.target.trim(), ...chosen(fields) });
}

export async function requeueAll({ name: destination }) {
  let plan;
  try {
    plan = await get("queues/redrive", { destination });
  } catch (error) {
    notice(error.message, "bad");
    return false;
  }
  return requeue({ destination }, plan);
}

/** The same for some of them; their rows say where each came from. */
export function requeueSome(destination, ids, messages) {
  const targets = {};
  for (const { dead_letter: letter } of messages) {
    if (!letter) continue;
    // Nothing can be sent to a pattern: what died at its subscriber goes to its own topic.
    const to = /[*#]/.test(letter.source) ? letter.destination : letter.source;
    targets[to] = (targets[to] ?? 0) + 1;
  }
  const others = messages.filter((each) => !each.dead_letter).length;
  const why = "it is no dead letter of this server, so its source is not known; move it instead";
  return requeue({ destination, ids }, { targets, others: 0, complete: true, refusals: others, refused: [{ error: why }] });
}

/** Where dead letters would go, and then there. */
async function requeue(body, { targets, others, complete, refusals, refused }) {
  const goes = Object.entries(targets);
  const all = goes.reduce((sum, [, number]) => sum + number, others);
  if (!all && complete) {
    notice(refusals ? `Nothing can be requeued: ${refused[0].error}` : "No dead letter waits here", "bad");
    return false;
  }
  const fields = await ask({
    title: complete ? `Requeue ${many(all, "dead letter")}` : "Requeue all dead letters",
    text: html`<p>
        They go back to where they came from, with a fresh count of
        failures${complete ? "" : html`; of the first ${count(all + refusals)}`}:
      </p>
      <table class="preview">
        <tbody>
          ${goes.map(
            ([name, number]) =>
              html`<tr>
                <td class="number">${count(number)}</td>
                <th scope="row" class="mono" title=${name}>→ ${called(name)}</th>
              </tr>`,
          )}
          ${others ? html`<tr><td class="number">${count(others)}</td><th scope="row">to other destinations</th></tr>` : nothing}
        </tbody>
      </table>
      ${refusals ? html`<p class="message">${many(refusals, "message")} will stay here: ${refused[0].error}</p>` : nothing}`,
    yes: "Requeue",
  });
  return (
    fields &&
    attempt(
      () => post("queues/redrive", body),
      (answer) => outcome(answer.redriven, "requeued", answer),
    )
  );
}

const move = (body) =>
  attempt(
    () => post("queues/move", body),
    (answer) => {
      const found = answer.moved + answer.refused.length > 0 || answer.stopped;
      return body.selector && !found ? unmatched(body.source, body.selector) : outcome(answer.moved, "moved", answer);
    },
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
    fields: html`${target}${created}`,
    yes: "Move",
  });
  return fields && move({ source, target: fields.target.trim(), ids });
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
  const found = await fetched("scheduled", { destination, limit: 1 });
  if (!found) return null;
  const { total } = found;
  const fields = await ask({
    title: `Delete ${many(total, "scheduled message")}`,
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
