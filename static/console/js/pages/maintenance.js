// What is done rarely, and stops clients: the drain.  It has a page of its own, away from the controls of every day.

import { get, post } from "../api.js";
import { ask } from "../ask.js";
import { many } from "../format.js";
import { html, nothing, render } from "../html.js";
import * as live from "../live.js";
import { card } from "../parts.js";
import { attempt } from "../say.js";

export const maintenance = { title: "Maintenance", mount: (root) => new Maintenance(root) };

const ofOne = (store) =>
  html`<p>
      The gateway takes no new connections, tells its clients to come back later, and disconnects them. The process does
      not end by itself, and only a restart ends the drain.
    </p>
    ${store ? nothing : html`<p><strong>It has no store: the restart loses all messages that wait.</strong></p>`}`;

function ofNode({ role, nodes }) {
  if (role !== "primary") return html`<p>This node has no clients. It takes over no more, until it is restarted.</p>`;
  return nodes.some((each) => each.role === "standby")
    ? html`<p>A standby takes over, mostly within a second. This node takes over no more, until it is restarted.</p>`
    : html`<p>
        <strong>There is no standby that could take over:</strong> clients wait until another node, or this one, is
        started.
      </p>`;
}

const WORDS = { draining: "Draining …", drained: "Drained" };

class Maintenance {
  constructor(root) {
    this.root = root;
    this.draw();
    this.leave = live.follow(() => this.draw());
  }

  async drain() {
    const [{ sessions, store }, nodes] = await Promise.all([
      get("overview", { since: Date.now() / 1000 }), // as it is now
      get("cluster"),
    ]);
    const name = nodes.cluster ? nodes.node : "the gateway";
    const fields = await ask({
      title: `Drain ${name} and disconnect ${many(sessions.total, "session")}`,
      text: nodes.cluster ? ofNode(nodes) : ofOne(store),
      yes: "Drain",
      danger: true,
    });
    if (!fields) return;
    await attempt(() => post("drain?force=true"), nodes.cluster ? `${name} drains` : "The gateway drains");
    live.soon();
  }

  draw() {
    const { answer } = live.now();
    const words = WORDS[answer?.drain];
    const text = html`<p>
        Before an upgrade or a restart: the gateway finishes what it has, disconnects all clients and takes no new ones.
        Clients come back by themselves to the restarted gateway.
      </p>
      <ol class="steps">
        <li>Drain, and wait until the banner says that no client is connected.</li>
        <li>Stop or restart the process. The drain ends with it, and in no other way.</li>
      </ol>
      <div>
        <button type="button" class="danger" ?disabled=${!answer || Boolean(words)} @click=${() => this.drain()}>
          ${words ?? "Drain …"}
        </button>
      </div>`;
    render(
      html`<div class="page-head"><h1>Maintenance</h1></div>
        ${card("drain-title", "Drain", html`<div class="stack">${text}</div>`)}`,
      this.root,
    );
  }
}
