// Publish and subscribe from this page, over STOMP to the gateway itself: a client like any other, under the same
// rules.  It goes on while other pages are shown.

import { findAddress, readable, Talk } from "../../../talk.js";
import { clock, count } from "../format.js";
import { html, nothing, render, repeat } from "../html.js";
import { empty, headers } from "../parts.js";
import { announce } from "../say.js";

const KEEP = 200; // messages
const HINT = "Connect, subscribe, then send to the same destination, from here or from a worker.";
const CONFIG = new URL("../config.json", document.baseURI);

const seen = {
  state: "offline",
  text: "Not connected",
  error: null,
  settled: "",
  messages: [],
  received: 0,
  address: "",
};
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
  message(message) {
    seen.received += 1;
    const body = readable(message.binaryBody);
    const entry = { number: seen.received, at: Date.now() / 1000, fields: { ...message.headers }, body };
    seen.messages = [entry, ...seen.messages.slice(0, KEEP - 1)];
    redraw();
  },
  dropped: () => redraw(),
  settled(text) {
    seen.settled = text;
    redraw();
  },
});

export const playground = {
  title: "Playground",
  mount(root, query) {
    const given = query.get("destination") ?? "/topic/hello";
    redraw = () => render(view(given), root);
    redraw();
    if (!seen.address) locate();
    return {
      leave() {
        redraw = () => {};
      },
    };
  },
};

async function locate() {
  try {
    seen.address = await findAddress(CONFIG);
  } catch (error) {
    seen.error = { title: "The gateway does not answer", text: error.message };
  }
  redraw();
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

const subscribe = onSubmit(({ destination, selector }) => {
  talk.subscribe(destination.trim(), selector.trim() ? { selector: selector.trim() } : {});
});

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
            required
            autocapitalize="off"
            spellcheck="false"
        /></label>
        <label class="wide"
          >Selector (optional) <input class="mono" name="selector" autocapitalize="off" spellcheck="false"
        /></label>
      </div>
      <div class="actions"><button type="submit" class=${on ? "main" : ""} ?disabled=${!on}>Subscribe</button></div>
    </form>
    <ul class="chips" aria-label="Subscriptions">
      ${repeat(
        all,
        (each) => each,
        (each) =>
          html`<li>
            <span class="mono">${each}</span>
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
    <pre class="body">${body}</pre>
    <details>
      <summary class="quiet">Headers</summary>
      ${headers(Object.entries(fields))}
    </details>
  </li>`;
}
