// One session: its client, its subscriptions, its end, and its frames, live.

import { get, remove } from "../api.js";
import { ask } from "../ask.js";
import { copyButton } from "../copy.js";
import { age, count, date, lasting, octets } from "../format.js";
import { html, nothing, render } from "../html.js";
import { table } from "../list.js";
import { clientName, cut } from "../names.js";
import { card, empty, facts, failure, loading } from "../parts.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { attempt } from "../say.js";
import { Tap } from "../tap.js";
import { MEANS } from "../words.js";
import { columnsWithout } from "./subscriptions.js";

const EVERY = 2000;

export const session = {
  title: "Session",
  mount: (root, query) => new Session(root, query),
};

class Session {
  constructor(root, query) {
    this.root = root;
    this.id = query.get("id") ?? "";
    this.answer = null;
    this.error = null;
    this.tap = new Tap(this.id, () => this.draw());
    this.polling = poll(
      (signal) => this.ask(signal),
      EVERY,
      (error) => this.fail(error),
    );
    this.draw();
  }

  leave() {
    this.polling.stop();
    this.tap.stop();
  }

  async ask(signal) {
    this.answer = await get(`sessions/${encodeURIComponent(this.id)}`, {}, signal);
    this.error = null;
    this.draw();
  }

  fail(error) {
    this.error = error;
    if (error.status === 404) this.polling.stop(); // an id is never given again
    this.draw();
  }

  async end() {
    const fields = await ask({
      title: "Disconnect this session",
      text: html`<p>
        The client gets an ERROR frame. Its unacknowledged messages go to other consumers. Most clients connect again by
        themselves.
      </p>`,
      fields: html`<label>Reason, for the client (optional) <input name="reason" maxlength="200" /></label>`,
      yes: "Disconnect",
      danger: true,
    });
    if (!fields) return;
    const done = await attempt(
      () => remove(`sessions/${encodeURIComponent(this.id)}`, { reason: fields.reason }),
      "Disconnected",
    );
    if (!done) return;
    this.polling.again();
    this.root.querySelector("h1").tabIndex = -1;
    this.root.querySelector("h1").focus();
  }

  draw() {
    const gone = this.error?.status === 404;
    render(
      html`<div class="page-head">
          <a class="back" href=${link("sessions")}>All sessions</a>
          <h1>${this.answer ? cut(clientName(this.answer.login, this.answer.client_id)) : "Session"}</h1>
          <span class="quiet mono">${this.id}</span> ${copyButton(this.id, "the id of the session")}
          ${gone && this.answer ? html`<span class="badge">ended</span>` : nothing} ${this.answer && !gone ? this.actions() : nothing}
        </div>
        ${gone ? (this.answer ? ended : unknown) : failure("The session cannot be shown.", this.error)}
        ${this.answer ? this.parts(this.answer, gone) : this.error ? nothing : loading}`,
      this.root,
    );
  }

  actions() {
    return html`<div class="actions">
      <button type="button" class="danger" @click=${() => this.end()}>Disconnect …</button>
    </div>`;
  }

  parts(row, gone) {
    const subscriptions = row.subscription_list?.length
      ? table("Table of subscriptions", columnsWithout("login"), row.subscription_list, (each) => each.id)
      : empty("No subscriptions");
    return html`${facts(who(row), "facts card")} ${this.tap.view(gone)}
    ${card("subscriptions-title", "Subscriptions", subscriptions)}`;
  }
}

const ended = html`<p class="message" role="status">
  <strong>This session has ended.</strong> This page shows its last known state.
</p>`;

const unknown = html`<div class="card empty" role="status">
  <strong>No session has this id</strong>
  <span>It has ended, or the gateway was restarted: a client that connects again gets another id.</span>
</div>`;

function who(row) {
  const [out, into] = row.heart_beat ?? [];
  const held = row.held && [row.held.reason, row.held.destination, row.held.receiver].filter(Boolean).join(", ");
  return [
    ["Login", cut(row.login || "anonymous")],
    ["Client id", row.client_id || "none"],
    ["Address", html`<span class="mono">${row.peer}</span>`],
    ["Transport", row.transport],
    ...(row.edge ? [["Edge", row.edge]] : []),
    ["STOMP", row.version],
    ["Connected", html`${age(row.connected_at)}<span class="quiet under">since ${date(row.connected_at)}</span>`],
    ["Heart-beats", out || into ? `${out / 1000} s out, ${into / 1000} s in` : "none", MEANS.heart_beats],
    ["Frames in", count(row.frames_in), MEANS.frames_in],
    ["Frames out", count(row.delivered), MEANS.delivered_frames],
    ["Unacknowledged", count(row.unacknowledged), MEANS.unacknowledged],
    ["Oldest unacknowledged", lasting(row.oldest_unacknowledged_age)],
    ["Waiting to be read", octets(row.pending_octets), MEANS.pending],
    ["Transactions", count(row.transactions), MEANS.transactions],
    ["Held back", held ? html`<span class="badge wait">${held}</span>` : "no", MEANS.held],
  ];
}
