// The messages of a queue that wait, and of a topic that keeps them: a page at a time.  Looking removes nothing; those
// of a queue can be selected, for what an operator does with them.

import { get } from "./api.js";
import { sheet } from "./ask.js";
import { age, clock, count, date, many, octets } from "./format.js";
import { html, live, nothing, repeat } from "./html.js";
import { fetched, marks, preview, whole, why } from "./message.js";
import { called, cut } from "./names.js";
import { moveSome, requeueSome, removeSome } from "./operations.js";
import { card, empty, failure, loading } from "./parts.js";
import { poll } from "./poll.js";
import { go } from "./router.js";
import { announce } from "./say.js";
import { term } from "./tips.js";
import { MEANS } from "./words.js";

const EVERY = 3000;
const PAGE = 50;

/** The part of the page of a queue or a stream; the address has `selector` and `offset`. */
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

  /** From when on it is known to have messages. */
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
    const answer = await get("messages", { destination: this.destination, limit: PAGE, selector, offset }, signal);
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
    announce(`${this.chosen.size} selected`);
    this.changed();
  }

  /** The selector of what is shown. */
  get selector() {
    return this.query.get("selector") ?? "";
  }

  async did(action) {
    if (!(await action)) return;
    this.chosen.clear();
    this.again();
    document.getElementById("messages-title")?.focus(); // the button has gone with what was chosen
  }

  // --- what it looks like

  /** `beside`: what can be done to all of them. */
  view(row, beside) {
    const submit = (event) => {
      event.preventDefault();
      this.set({ selector: new FormData(event.target).get("selector").trim() });
    };
    const filter = html`<form class="fields" role="search" aria-label="Filter messages" @submit=${submit}>
      <label class="wide">Selector ${this.field()}</label>
      <button type="submit">Filter</button>
    </form>`;
    const content = html`<div class="stack">
      ${row.kind === "queue" ? filter : nothing}
      ${this.error ? failure("The messages cannot be shown.", this.error) : this.content(row)}
    </div>`;
    const title = row.kind === "queue" ? (row.dead_letters ? "Dead letters" : "Messages") : "Messages that the topic keeps";
    return card("messages-title", title, content, beside);
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
    if (!messages.length) return this.none(row);
    const turn = (to, word) =>
      html`<button type="button" ?disabled=${to < 0 || to >= total} @click=${() => this.set({ offset: to || "" })}>
        ${word}
      </button>`;
    const columns = columnsOf(row, messages);
    const choice = row.kind === "queue";
    const open = (message) => this.open(message, row);
    return html`${choice ? this.bar(row) : nothing}
      <div class="scroll" role="region" aria-label="Table of messages" tabindex="0">
        <table>
          <thead>
            <tr>
              ${choice ? html`<th scope="col">${this.all(messages)}</th>` : nothing}
              ${columns.map(({ label, classes, tip }) => html`<th scope="col" class=${classes}>${term(label, tip)}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${repeat(
              messages,
              (each) => each.id,
              (each) =>
                html`<tr class=${this.chosen.has(each.id) ? "chosen" : ""}>
                  ${choice ? html`<td>${this.box(each.id)}</td>` : nothing} ${columns.map((column) => column.cell(each, open))}
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
      <div class="paging">
        <span class="count">${count(offset + 1)}–${count(offset + messages.length)} of ${many(total, "message")}</span>
        ${
          (next ?? total) < total || offset
            ? html`${turn(offset === 0 ? -1 : Math.max(0, offset - limit), "Previous")} ${turn(next ?? total, "Next")}`
            : nothing
        }
      </div>`;
  }

  none(row) {
    if (row.kind !== "queue") return empty("No messages", "The topic keeps the next ones for later subscribers.");
    const title = this.selector ? "No waiting message matches the selector" : "No waiting messages";
    const at = `${many(row.unacknowledged, "message")} at consumers, unacknowledged.`;
    return empty(title, row.unacknowledged ? at : "");
  }

  all(messages) {
    const every = messages.every((each) => this.chosen.has(each.id));
    const change = (event) => {
      for (const { id } of messages) event.target.checked ? this.chosen.add(id) : this.chosen.delete(id);
      announce(`${this.chosen.size} selected`);
      this.changed();
    };
    return html`<input
      type="checkbox"
      aria-label="Select all on this page"
      .checked=${live(every)}
      @change=${change}
    />`;
  }

  box(id) {
    return html`<input
      type="checkbox"
      aria-label="Select ${id}"
      .checked=${live(this.chosen.has(id))}
      @change=${(event) => this.choose(id, event.target.checked)}
    />`;
  }

  bar(row) {
    const some = this.answer.messages.filter((each) => this.chosen.has(each.id));
    const none = html`<span class="quiet count">Select messages to ${row.dead_letters ? "requeue, " : ""}move or delete them.</span>`;
    return html`<div class="paging bar" role="group" aria-label="Selected messages">
      ${
        some.length
          ? html`<strong class="count">${some.length} selected</strong>${this.buttons(row, some, (action) => this.did(action))}`
          : none
      }
    </div>`;
  }

  buttons(row, messages, act) {
    const ids = messages.map((each) => each.id);
    const button = (word, classes, action) =>
      html`<button
        type="button"
        class=${classes}
        @click=${() => act(action(this.destination, ids, messages))}
      >
        ${word}
      </button>`;
    return html`${row.dead_letters ? button("Requeue …", "main", requeueSome) : nothing}
    ${button("Move …", "", moveSome)} ${button("Delete …", "danger", removeSome)}`;
  }

  /** All of one message; the list has the first bytes of its body. */
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
      return whole(message, close, row.kind === "queue" ? this.buttons(row, [message], act) : nothing);
    });
    return after && this.did(after);
  }
}

const cell = (classes, content) => html`<td class=${classes}>${content}</td>`;
const column = (label, classes, content, tip) => ({
  label,
  classes,
  tip,
  cell: (message) => cell(classes, content(message)),
});

const size = (message) => octets(message.size);
const SIZE = column("Size", "number", size);
const start = (message) => html`<span class="clip mono">${preview(message)}</span>`;
const BODY = column("Body", "p3", start);
const AGE = column("Age", "p2 number", ageOf);
// The moment when it came into this queue: a dead letter was sent before it died, and one that was moved before it came.
const arrived = (message) => html`<span title=${date(message.sent)}>${clock(message.sent)}</span>`;
const ARRIVED = column("Arrived", "p2", arrived, MEANS.arrived);

function ageOf({ dead_letter: letter }) {
  return letter ? html`<span title="first failed at ${date(letter.first_at)}">${age(letter.first_at)}</span>` : "–";
}

const MESSAGE = {
  label: "Message",
  classes: "",
  cell: (message, open) => header(message.id, message, open, html`<span class="badges">${marks(message)}</span>`),
};
/** The reason stands first: it is what one looks for in a queue of dead letters. */
const REASON = {
  label: "Reason",
  classes: "",
  cell: (message, open) =>
    header(message.dead_letter ? why(message) : "Sent to this queue by a client", message, open, nothing),
};
const ATTEMPTS = column("Attempts", "number p2", (message) => count(message.dead_letter?.failures), MEANS.attempts);
const FROM = column(
  "Came from",
  "name source p2",
  (message) => html`<span class="mono">${message.dead_letter ? cut(called(message.dead_letter.source)) : "–"}</span>`,
);

function header(name, message, open, beside) {
  const label = name === message.id ? nothing : `${name}, message ${message.id}`;
  return html`<th scope="row" class="name ${name === message.id ? "" : "sentence"}">
    <button type="button" class="plain link ${name === message.id ? "mono" : ""}" aria-label=${label} @click=${() => open(message)}>
      ${name}
    </button>
    ${beside} <span class="below mono">${preview(message)}</span>
  </th>`;
}

/** Without a record the gateway does not know when a message came. */
function columnsOf(row, messages) {
  const dated = messages.some((each) => each.sent !== null) ? [ARRIVED] : [];
  if (row.dead_letters) return [REASON, AGE, FROM, ATTEMPTS, column("Size", "number p2", size), column("Body", "p4", start)];
  if (row.kind !== "queue") return [MESSAGE, ...dated, SIZE, BODY];
  const priority = column("Priority", "number p3", (message) => message.priority);
  const deliveries = column("Deliveries", "number p2", (message) => count(message.deliveries));
  return [MESSAGE, ...dated, SIZE, priority, deliveries, BODY];
}
