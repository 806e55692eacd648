// Publish and subscribe from this page, over STOMP to the gateway itself: a client like any other, under the same
// rules.  It goes on while other pages are shown.
//
// A subscription to a queue would take its messages away, from the workers that they are for.  So the page browses
// queues; who wants to consume says so, confirms the number, and stops by leaving the page or losing the connection.

import { BROWSE, findAddress, isQueue, readable, Talk } from "../../../talk.js";
import { ask } from "../ask.js";
import { clock, count, many } from "../format.js";
import { html, live, nothing, render, repeat } from "../html.js";
import { line } from "../line.js";
import { fetched } from "../message.js";
import { listed } from "../names.js";
import { empty, headers } from "../parts.js";
import { link } from "../router.js";
import { announce, notice } from "../say.js";

const KEEP = 200; // messages
const PREFETCH = 20; // messages that wait for an acknowledgement of this page, at most
const HINT = "Connect, subscribe, then send to the same destination, from here or from a worker.";
const CONFIG = new URL("../config.json", document.baseURI);

const seen = {
  state: "offline",
  text: "Not connected",
  error: null,
  settled: "",
  messages: [],
  received: 0,
  note: "", // a queue that is too long to be shown
  address: "",
  target: "", // in the field of the subscription
  consume: false,
};
const browsed = new Map(); // destination -> how many of its messages this page has got
const consumed = new Set(); // destinations
let redraw = () => {};

const talk = new Talk({
  state(state, text) {
    Object.assign(seen, { state, text });
    redraw();
  },
  error(title, text) {
    seen.error = { title, text };
    redraw();
  },
  message(message, destination) {
    if (browsed.has(destination)) return browse(message, destination);
    if (consumed.has(destination)) message.ack();
    return show(message);
  },
  dropped(destination) {
    browsed.delete(destination);
    if (consumed.delete(destination)) notice(`The connection ended, so ${destination} is not consumed any more`, "bad");
    redraw();
  },
  settled(text) {
    seen.settled = text;
    redraw();
  },
});

/** Queues are browsed from their beginning, and what comes later is shown, too; a long one is left before its end. */
function browse(message, destination) {
  const number = browsed.get(destination) + 1;
  browsed.set(destination, number);
  show(message);
  if (number < KEEP) return;
  talk.unsubscribe(destination);
  browsed.delete(destination);
  seen.error = null;
  seen.note = destination;
  redraw();
}

function show(message) {
  seen.received += 1;
  const body = readable(message.binaryBody);
  const entry = { number: seen.received, at: Date.now() / 1000, fields: { ...message.headers }, body };
  seen.messages = [entry, ...seen.messages.slice(0, KEEP - 1)];
  redraw();
}

export const playground = {
  title: "Playground",
  mount(root, query) {
    const given = query.get("destination") ?? "/topic/hello";
    Object.assign(seen, { target: given, consume: false });
    redraw = () => render(view(given), root);
    redraw();
    if (!seen.address) locate();
    return {
      leave() {
        redraw = () => {};
        stopConsuming();
      },
    };
  },
};

async function locate() {
  try {
    seen.address = await findAddress(CONFIG);
  } catch {
    line.addEventListener("here", locate, { once: true }); // the banner tells of it meanwhile
  }
  redraw();
}

/** A page that is not seen consumes nothing. */
function stopConsuming() {
  for (const destination of consumed) {
    talk.unsubscribe(destination);
    notice(`You left the playground, so ${destination} is not consumed any more`);
  }
  consumed.clear();
}

/** Handler of a form: its fields go to `action`, and what that throws is shown. */
function onSubmit(action) {
  return async (event) => {
    event.preventDefault();
    seen.error = null;
    try {
      await action(Object.fromEntries(new FormData(event.target)));
    } catch (error) {
      seen.error = { title: "This did not work", text: error.message };
    }
    redraw();
  };
}

const connect = onSubmit(async ({ login, passcode }) => {
  if (talk.isOn) await talk.disconnect();
  else talk.connect(await findAddress(CONFIG), login, passcode);
});

const subscribe = onSubmit(async ({ destination: typed, selector: words }) => {
  const destination = typed.trim();
  const selector = words.trim() ? { selector: words.trim() } : {};
  seen.note = "";
  if (talk.subscriptions.has(destination)) return;
  if (!isQueue(destination)) talk.subscribe(destination, selector);
  else if (!seen.consume) {
    browsed.set(destination, 0);
    talk.subscribe(destination, { ...selector, ...BROWSE }, true);
  } else if (await mayConsume(destination, selector)) {
    consumed.add(destination);
    const manner = { ack: "client-individual", "prefetch-count": String(PREFETCH) };
    talk.subscribe(destination, { ...selector, ...manner }, true);
    seen.consume = false;
  }
});

async function mayConsume(destination, { selector }) {
  const name = listed(destination);
  const found = await fetched("destinations", { q: name, kind: "queue", sort: "name", limit: 1000 });
  if (!found) return null; // a notice says why, or this is another page by now
  const { destinations } = found;
  const row = destinations.find((each) => each.name === name);
  const waiting = row ? row.waiting + row.delayed : 0;
  return ask({
    title: `Consume ${many(waiting, "message")} of ${destination}?`,
    text: html`<p>
        ${selector ? html`Those that match <code>${selector}</code> are` : "They are"} removed from the queue and
        acknowledged; other consumers do not get them. This page shows the last ${KEEP}. This cannot be undone.
      </p>
      <p>Messages that come later are consumed, too, until you unsubscribe or leave this page.</p>`,
    yes: "Consume",
    danger: true,
  });
}

const send = onSubmit(({ destination, body, headers }) => talk.send(destination.trim(), body, parsed(headers)));

/** Lines of `name: value`. */
function parsed(text) {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^([^:\s]+)\s*:\s*(.*)$/.exec(line) ?? [];
      if (!name) throw new Error(`"${line}" is not a header: write one per line, like priority: 9`);
      return [name, value];
    }),
  );
}

function unsubscribe(destination) {
  talk.unsubscribe(destination);
  browsed.delete(destination);
  consumed.delete(destination);
  redraw();
  announce(`Unsubscribed from ${destination}`);
  document.getElementById("play-subscribe").focus();
}

function clear() {
  Object.assign(seen, { messages: [], received: 0 });
  redraw();
}

const STATES = { offline: "", connecting: "wait", connected: "good" };

function view(given) {
  const on = seen.state === "connected";
  return html`<div class="page-head">
      <h1>Playground</h1>
      <p class="state" role="status" data-state=${STATES[seen.state]}>${seen.text}</p>
    </div>
    <div role="alert">
      ${seen.error ? html`<p class="message bad"><strong>${seen.error.title}</strong> ${seen.error.text}</p>` : nothing}
    </div>
    <div class="columns">
      <div class="stack">${connection()} ${subscribing(given, on)} ${sending(given, on)}</div>
      ${messages()}
    </div>`;
}

function connection() {
  return html`<section class="card" aria-labelledby="play-connection">
    <h2 id="play-connection">Connection</h2>
    <form class="form" @submit=${connect}>
      <p class="mono">${seen.address}</p>
      ${
        talk.isOn
          ? nothing
          : html`<details>
              <summary class="quiet">Log in as</summary>
              <div class="fields">
                <label class="wide"
                  >Login <input name="login" autocomplete="off" autocapitalize="off" spellcheck="false"
                /></label>
                <label class="wide">Passcode <input name="passcode" type="password" autocomplete="off" /></label>
              </div>
            </details>`
      }
      <div class="actions">
        <button type="submit" class=${talk.isOn ? "" : "main"}>${talk.isOn ? "Disconnect" : "Connect"}</button>
      </div>
    </form>
  </section>`;
}

function subscribing(given, on) {
  const all = [...talk.subscriptions.keys()];
  const queue = isQueue(seen.target.trim());
  const typed = (event) => {
    seen.target = event.target.value;
    redraw();
  };
  const way = (consume) => () => {
    seen.consume = consume;
    redraw();
  };
  const verb = queue ? (seen.consume ? "Consume …" : "Browse") : "Subscribe";
  return html`<section class="card" aria-labelledby="play-listen">
    <h2 id="play-listen">Subscribe</h2>
    <form class="form" @submit=${subscribe}>
      <div class="fields">
        <label class="wide"
          >Destination
          <input
            id="play-subscribe"
            class="mono"
            name="destination"
            value=${given}
            @input=${typed}
            required
            autocapitalize="off"
            spellcheck="false"
        /></label>
        <label class="wide"
          >Selector (optional) <input class="mono" name="selector" autocapitalize="off" spellcheck="false"
        /></label>
      </div>
      ${queue ? manners(way) : nothing}
      <div class="actions">
        <button type="submit" class="${on ? "main" : ""} ${queue && seen.consume ? "danger" : ""}" ?disabled=${!on}>
          ${verb}
        </button>
      </div>
    </form>
    ${
      seen.note
        ? html`<p class="message">
            The first ${KEEP} messages are shown. All of them are on the page of
            <a class="mono" href=${link("destination", { name: listed(seen.note) })}>${seen.note}</a>.
          </p>`
        : nothing
    }
    <ul class="chips" aria-label="Subscriptions" ?hidden=${!all.length}>
      ${repeat(
        all,
        (each) => each,
        (each) =>
          html`<li>
            <span class="mono">${each}</span>
            ${browsed.has(each) ? html`<span class="badge">browsed</span>` : nothing}
            ${consumed.has(each) ? html`<span class="badge bad">consumed</span>` : nothing}
            <button
              type="button"
              class="plain close"
              aria-label="Unsubscribe from ${each}"
              @click=${() => unsubscribe(each)}
            >
              ×
            </button>
          </li>`,
      )}
    </ul>
  </section>`;
}

/** What becomes of the messages of a queue. */
function manners(way) {
  return html`<fieldset class="form">
    <legend class="hush">What becomes of the messages</legend>
    <label class="check"
      ><input type="radio" name="manner" value="browse" .checked=${live(!seen.consume)} @change=${way(false)} />
      <span><b>Browse:</b> look at the messages; they stay in the queue</span></label
    >
    <label class="check"
      ><input type="radio" name="manner" value="consume" .checked=${live(seen.consume)} @change=${way(true)} />
      <span><b>Consume:</b> take them out of the queue, for good</span></label
    >
  </fieldset>`;
}

function sending(given, on) {
  return html`<section class="card" aria-labelledby="play-send">
    <h2 id="play-send">Send</h2>
    <form class="form" @submit=${send}>
      <label
        >Destination
        <input class="mono" name="destination" value=${given} required autocapitalize="off" spellcheck="false"
      /></label>
      <label>Body <textarea class="mono" name="body" rows="3">Hello, world</textarea></label>
      <details>
        <summary class="quiet">Headers</summary>
        <label
          >One per line, as <code>name: value</code>
          <textarea class="mono" name="headers" rows="2" placeholder="priority: 9" spellcheck="false"></textarea>
        </label>
      </details>
      <div class="actions">
        <p class="quiet" role="status">${seen.settled}</p>
        <button type="submit" class=${on ? "main" : ""} ?disabled=${!on}>Send</button>
      </div>
    </form>
  </section>`;
}

function messages() {
  return html`<section class="card" aria-labelledby="play-messages">
    <div class="card-head">
      <h2 id="play-messages">Messages</h2>
      <span class="quiet">${seen.received ? `${count(seen.received)} received` : ""}</span>
      ${seen.received ? html`<button type="button" class="plain" @click=${clear}>Clear</button>` : nothing}
    </div>
    <div class="feed" role="log" aria-labelledby="play-messages" tabindex="0">
      <ol>
        ${repeat(seen.messages, (each) => each.number, entry)}
      </ol>
    </div>
    ${seen.messages.length ? nothing : empty("No messages yet", HINT)}
  </section>`;
}

function entry({ at, fields, body }) {
  return html`<li>
    <div class="line">
      <time>${clock(at)}</time>
      <strong class="rest mono">${fields.destination}</strong>
    </div>
    <pre class="body" tabindex="0">${body}</pre>
    <details>
      <summary class="quiet">Headers</summary>
      ${headers(Object.entries(fields))}
    </details>
  </li>`;
}
