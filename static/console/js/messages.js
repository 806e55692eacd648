// The message browser of a queue: waiting messages, a page at a time, and the chosen ones.  Looking removes nothing.

import { get } from "./api.js";
import { sheet } from "./ask.js";
import { clock, count, date, many, octets } from "./format.js";
import { html, live, nothing, repeat } from "./html.js";
import { moveSome, redriveSome, removeSome } from "./operations.js";
import { card, empty, facts, failure, headers, loading } from "./parts.js";
import { poll } from "./poll.js";
import { go } from "./router.js";
import { announce, notice } from "./say.js";

const EVERY = 3000;
const SIZE = 50;

/** The part of the page of a queue; the address has `selector` and `offset`. */
export class Messages {
  constructor(destination, query, changed) {
    this.destination = destination;
    this.query = query;
    this.changed = changed;
    this.chosen = new Set();
    this.answer = null;
    this.error = null;
    this.polling = null;
  }

  /** From when on it is known to be a queue. */
  begin() {
    this.polling ??= poll(
      (signal) => this.ask(signal),
      EVERY,
      (error) => this.fail(error),
    );
  }

  leave() {
    this.polling?.stop();
    this.polling = null;
  }

  again() {
    this.polling?.again();
  }

  update(query) {
    this.query = query;
    this.changed();
    this.again();
  }

  async ask(signal) {
    const asked = this.query;
    const [selector, offset] = [asked.get("selector"), asked.get("offset")];
    const answer = await get("messages", { destination: this.destination, limit: SIZE, selector, offset }, signal);
    if (asked !== this.query) return;
    Object.assign(this, { answer, error: null });
    const there = new Set(answer.messages.map((each) => each.id));
    for (const id of this.chosen) if (!there.has(id)) this.chosen.delete(id);
    this.changed();
  }

  fail(error) {
    if (error.status === 404) return this.leave(); // the queue has gone, and its page finds that out
    this.error = error;
    return this.changed();
  }

  set(changes) {
    const { offset: _, ...rest } = Object.fromEntries(this.query);
    go("destination", { ...rest, ...changes });
  }

  choose(id, on) {
    if (on) this.chosen.add(id);
    else this.chosen.delete(id);
    announce(`${this.chosen.size} chosen`);
    this.changed();
  }

  async did(action) {
    if (!(await action)) return;
    this.chosen.clear();
    this.again();
    document.getElementById("messages-title")?.focus(); // the button has gone with what was chosen
  }

  // --- what it looks like

  view(row) {
    const submit = (event) => {
      event.preventDefault();
      this.set({ selector: new FormData(event.target).get("selector").trim() });
    };
    const content = html`<div class="stack">
      <form class="fields" role="search" aria-label="Filter messages" @submit=${submit}>
        <label class="wide">Selector ${this.field()}</label>
        <button type="submit">Filter</button>
      </form>
      ${this.error ? failure("The messages cannot be shown.", this.error) : this.content(row)}
    </div>`;
    return card("messages-title", "Messages", content);
  }

  field() {
    return html`<input
      class="mono"
      name="selector"
      .value=${this.query.get("selector") ?? ""}
      placeholder="JMSPriority > 4 AND region = 'eu'"
      autocapitalize="off"
      spellcheck="false"
    />`;
  }

  content(row) {
    if (!this.answer) return loading;
    const { messages, total, offset, limit, next } = this.answer;
    const dated = messages.some((each) => each.sent !== null); // known where the gateway keeps a record alone
    if (!messages.length) {
      const asked = this.query.get("selector");
      const none = asked ? "No waiting message matches the selector" : "No waiting messages";
      const elsewhere = row.unacknowledged ? `${many(row.unacknowledged, "message")} at consumers, without ACK.` : "";
      return empty(none, elsewhere);
    }
    const turn = (to, word) =>
      html`<button type="button" ?disabled=${to < 0 || to >= total} @click=${() => this.set({ offset: to || "" })}>
        ${word}
      </button>`;
    return html`${this.bar(row)}
      <div class="scroll" role="region" aria-label="Table of messages" tabindex="0">
        <table>
          <thead>
            <tr>
              <th scope="col">${this.all(messages)}</th>
              <th scope="col">Message</th>
              ${row.dead_letters ? graveHeads : nothing} ${dated ? arrivedHead : nothing}
              <th scope="col" class="number">Size</th>
              <th scope="col" class="number p3">Prio.</th>
              <th scope="col" class="number p2">Deliveries</th>
              <th scope="col" class="p3">Body</th>
            </tr>
          </thead>
          <tbody>
            ${repeat(
              messages,
              (each) => each.id,
              (each) => this.row(each, row, dated),
            )}
          </tbody>
        </table>
      </div>
      <div class="paging">
        <span class="count">${count(offset + 1)}–${count(offset + messages.length)} of ${many(total, "message")}</span>
        ${turn(offset === 0 ? -1 : Math.max(0, offset - limit), "Previous")} ${turn(next ?? total, "Next")}
      </div>`;
  }

  all(messages) {
    const every = messages.every((each) => this.chosen.has(each.id));
    const change = (event) => {
      for (const { id } of messages) event.target.checked ? this.chosen.add(id) : this.chosen.delete(id);
      announce(`${this.chosen.size} chosen`);
      this.changed();
    };
    return html`<input
      type="checkbox"
      aria-label="Choose all on this page"
      .checked=${live(every)}
      @change=${change}
    />`;
  }

  row(message, row, dated) {
    const { id, dead_letter: letter } = message;
    const mark = this.chosen.has(id);
    return html`<tr class=${mark ? "chosen" : ""}>
      <td>
        <input
          type="checkbox"
          aria-label="Choose ${id}"
          .checked=${live(mark)}
          @change=${(event) => this.choose(id, event.target.checked)}
        />
      </td>
      <th scope="row" class="name">
        <div class="badges">
          <button type="button" class="plain link mono" @click=${() => this.open(message, row)}>${id}</button>
          ${marks(message)}
        </div>
        <span class="below mono">${preview(message)}</span>
      </th>
      ${row.dead_letters ? grave(letter) : nothing}
      ${dated ? html`<td class="p2" title=${date(message.sent)}>${clock(message.sent)}</td>` : nothing}
      <td class="number">${octets(message.size)}</td>
      <td class="number p3">${message.priority}</td>
      <td class="number p2">${count(message.deliveries)}</td>
      <td class="p3"><span class="clip mono">${preview(message)}</span></td>
    </tr>`;
  }

  bar(row) {
    const ids = [...this.chosen];
    return html`<div class="paging" role="group" aria-label="Chosen messages">
      <strong class="count">${this.chosen.size} chosen</strong>${this.buttons(row, ids, (action) => this.did(action))}
    </div>`;
  }

  buttons(row, ids, act) {
    const idle = ids.length === 0;
    const button = (word, classes, action) =>
      html`<button type="button" class=${classes} ?disabled=${idle} @click=${() => act(action(this.destination, ids))}>
        ${word}
      </button>`;
    return html`${row.dead_letters ? button("Re-drive …", "main", redriveSome) : nothing}
    ${button("Move …", "", moveSome)} ${button("Delete …", "danger", removeSome)}`;
  }

  /** All of one message; the list has the first octets of its body. */
  async open(part, row) {
    let message = part;
    if (part.truncated) {
      message = await fetched("message", { destination: this.destination, id: part.id });
      if (!message) return undefined;
    }
    let after = null;
    await sheet(`Message ${message.id}`, (close) => {
      const act = (action) => {
        after = action;
        action.then((done) => done && close());
      };
      return whole(message, close, this.buttons(row, [message.id], act));
    });
    return after && this.did(after);
  }
}

function marks(message) {
  return html`${message.delayed ? html`<span class="badge wait">in back-off</span>` : nothing}
  ${message.redelivered ? html`<span class="badge wait">redelivered</span>` : nothing}
  ${message.dead_letter ? html`<span class="badge bad">${message.dead_letter.reason}</span>` : nothing}`;
}

// The API's `sent` is the moment when it came into this queue: a dead letter was sent before it died, and one that was
// moved before it came.
const arrivedHead = html`<th scope="col" class="p2">Arrived</th>`;

const graveHeads = html`<th scope="col" class="p2">From</th>
  <th scope="col" class="p2 number">First failed</th>`;

/** A message that was sent to a dead-letter queue, and not brought there, has not failed. */
function grave(letter) {
  return html`<td class="p2 name mono">${letter?.destination ?? "–"}</td>
    <td class="p2 number">${date(letter?.first_at)}</td>`;
}

function preview(message) {
  return message.body_encoding === "utf-8" ? message.body.slice(0, 200) : `${octets(message.size)} of binary data`;
}

function whole(message, close, buttons) {
  const { dead_letter: letter } = message;
  return html`<div class="stack">
    ${sheetHead(message.id, close)}
    <div class="badges">${marks(message)}</div>
    ${letter ? death(letter) : nothing}
    ${facts([
      ...(message.sent === null ? [] : [["Arrived", date(message.sent)]]),
      ["Expires", message.expires ? date(message.expires) : "never"],
      ["Size", octets(message.size)],
      ["Priority", message.priority],
      ["Deliveries", count(message.deliveries)],
    ])}
    ${contents(message)}
    <div class="actions">${buttons}</div>
  </div>`;
}

/** The content of a sheet; null: there is none, which a notice says, or the page has changed meanwhile. */
export async function fetched(path, query) {
  const asked = location.hash;
  try {
    const found = await get(path, query);
    return location.hash === asked ? found : null;
  } catch (error) {
    if (location.hash === asked) notice(error.message, "bad");
    return null;
  }
}

/** The top of a sheet. */
export function sheetHead(title, close) {
  return html`<div class="sheet-head">
    <h2 class="mono">${title}</h2>
    <button type="button" class="plain close" aria-label="Close" @click=${close}>×</button>
  </div>`;
}

/** Headers and body of a message. */
export function contents(message) {
  return html`<h3>Headers</h3>
    ${headers(Object.entries(message.headers))}
    <h3>Body</h3>
    ${message.body ? html`<pre class="body" tabindex="0">${message.body}</pre>` : nothing}
    <p class="quiet">${notes(message).join(" ")}</p>`;
}

function death(letter) {
  const first = letter.first_at ? `, first at ${date(letter.first_at)}` : "";
  return html`<p class="message">
    <strong>Dead letter</strong> of <code>${letter.destination}</code>: ${letter.reason},
    ${many(letter.failures, "failure")}${first}
  </p>`;
}

function notes({ body, body_encoding: encoding, truncated }) {
  const found = body ? [] : ["The body is empty."];
  if (encoding === "base64") found.push("The body is not text, and is shown as base64.");
  if (truncated) found.push("Only the beginning is shown.");
  return found;
}
