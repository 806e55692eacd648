// The frames of a session as they pass, from an event stream.  The gateway has hidden what is secret, cuts bodies, and
// counts what it had to leave out.  Many frames make one drawing, at most ten a second; while a person reads an open
// frame or has pressed Pause, nothing moves.

import { Refused } from "./api.js";
import { listen } from "./events.js";
import { clock, count, many, octets } from "./format.js";
import { html, nothing, repeat } from "./html.js";
import { card, headers } from "./parts.js";
import { announce } from "./say.js";

const KEEP = 500; // frames
const REDRAW = 100; // milliseconds
const PROMISE = "Every frame from and to this client; secrets are hidden. Other clients are not slowed down.";

export class Tap {
  constructor(session, changed) {
    this.session = session;
    this.changed = changed;
    this.running = null;
    this.frames = []; // the newest first
    this.shown = [];
    this.numbers = 0;
    this.dropped = 0;
    this.paused = false;
    this.words = "";
    this.timer = 0;
    this.state = "";
  }

  async start() {
    this.stop();
    const running = new AbortController();
    this.running = running;
    this.state = "Waiting for frames …";
    announce("Watching frames");
    this.changed();
    let reason = "the gateway ended it";
    const heard = (event, data) => {
      if (event === "frame") this.add(data);
      if (event === "dropped") this.dropped += data.frames;
      if (event === "end") reason = data.reason;
    };
    try {
      await listen(`sessions/${encodeURIComponent(this.session)}/tap`, heard, running.signal);
    } catch (error) {
      if (running.signal.aborted) return;
      reason = error instanceof Refused ? error.message : "the connection to the gateway was lost";
    }
    this.end(`The tap ended: ${reason}`);
  }

  end(text) {
    this.stop();
    this.state = text;
    announce(text);
    this.changed();
  }

  stop() {
    this.running?.abort();
    this.running = null;
    clearTimeout(this.timer);
    this.timer = 0;
    this.state = "";
    this.shown = this.frames;
  }

  add(frame) {
    this.numbers += 1;
    this.frames = [{ ...frame, number: this.numbers }, ...this.frames.slice(0, KEEP - 1)];
    this.state = "";
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      if (!this.paused && !document.querySelector(".feed details[open]")) this.shown = this.frames;
      this.changed();
    }, REDRAW);
  }

  pause() {
    this.paused = !this.paused;
    this.shown = this.frames;
    this.changed();
  }

  clear() {
    this.frames = this.shown = [];
    this.dropped = 0;
    this.changed();
  }

  // --- what it looks like

  view(gone) {
    const on = this.running !== null;
    const pause = html`<button type="button" aria-pressed=${String(this.paused)} @click=${() => this.pause()}>
      Pause
    </button>`;
    const clear = html`<button type="button" class="plain" @click=${() => this.clear()}>Clear</button>`;
    const go = () => (on ? this.end("Stopped") : this.start());
    const buttons = html`<div class="actions">
      ${on ? pause : nothing} ${this.frames.length ? clear : nothing}
      <button type="button" class=${on ? "" : "main"} ?disabled=${gone && !on} @click=${go}>
        ${on ? "Stop" : "Watch frames"}
      </button>
    </div>`;
    const content = html`<div class="stack">
      ${this.dropped ? missed(this.dropped) : nothing}
      ${this.frames.length ? this.list() : html`<div class="empty">${this.state || PROMISE}</div>`}
    </div>`;
    return card("tap-title", "Frames", content, buttons);
  }

  list() {
    const typed = (event) => {
      this.words = event.target.value;
      this.changed();
    };
    const words = this.words.trim().toLowerCase();
    const found = words ? this.shown.filter((each) => text(each).includes(words)) : this.shown;
    return html`<div class="fields">
        <label class="wide"
          >Show frames that contain
          <input type="search" .value=${this.words} @input=${typed} autocapitalize="off" spellcheck="false"
        /></label>
        <p class="quiet">${this.state} ${count(found.length)} shown of ${count(this.numbers)}</p>
      </div>
      <ol class="feed" aria-label="Frames" tabindex="0">
        ${repeat(found, (each) => each.number, row)}
      </ol>`;
  }
}

function missed(frames) {
  return html`<p class="message">
    <strong>${many(frames, "frame")} not shown:</strong> they came faster than this page could show them.
  </p>`;
}

const text = (frame) => `${frame.command} ${frame.headers.flat().join(" ")} ${frame.body}`.toLowerCase();

function row(frame) {
  const into = frame.direction === "in";
  const header = (name) => frame.headers.find(([each]) => each === name)?.[1];
  const about = header("destination") ?? header("receipt-id") ?? header("id") ?? header("message") ?? "";
  return html`<li>
    <details>
      <summary class="line">
        <time>${clock(frame.at)}</time>
        <span class="direction ${into ? "in" : "out"}">${into ? "→ in" : "← out"}</span>
        <strong class="mono">${frame.command}</strong>
        <span class="rest mono">${about}</span>
        <span class="quiet size">${octets(frame.size)}</span>
      </summary>
      ${headers(frame.headers)} ${frame.body ? html`<pre class="body" tabindex="0">${frame.body}</pre>` : nothing}
      ${frame.truncated ? html`<p class="quiet">Only the beginning of the body is shown.</p>` : nothing}
    </details>
  </li>`;
}
