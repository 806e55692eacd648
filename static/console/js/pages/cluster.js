// The cluster as this node sees it: which node is primary, which could take over, how long the log is, and who was
// primary before.  A handover is asked for here.

import { get, post } from "../api.js";
import { ask } from "../ask.js";
import { count, date, octets } from "../format.js";
import { html, nothing, render } from "../html.js";
import { table } from "../list.js";
import * as live from "../live.js";
import { card, empty, facts, failure, loading } from "../parts.js";
import { poll } from "../poll.js";
import { present, problems } from "../problems.js";
import { attempt } from "../say.js";
import { consoleOf } from "../standby.js";
import { MEANS } from "../words.js";

const EVERY = 1000;
const KINDS = { primary: "good", standby: "" };

export const cluster = { title: "Cluster", mount: (root) => new Cluster(root) };

class Cluster {
  constructor(root) {
    this.root = root;
    this.answer = null;
    this.error = null;
    this.polling = poll(
      (signal) => this.ask(signal),
      EVERY,
      (error) => this.fail(error),
    );
    this.end = live.follow(() => this.draw());
    this.draw();
  }

  leave() {
    this.polling.stop();
    this.end();
  }

  async ask(signal) {
    this.answer = await get("cluster", {}, signal);
    this.error = null;
    this.draw();
  }

  fail(error) {
    this.error = error;
    this.draw();
  }

  /** @param node its name */
  async handOver(node) {
    const { primary } = this.answer;
    const fields = await ask({
      title: `Hand over to ${node}`,
      text: html`<p>
        <strong>${primary}</strong> ends its sessions and becomes a standby, and <strong>${node}</strong> becomes primary,
        mostly within a second. Clients connect again by themselves. No durable message is lost, and all others are.
      </p>`,
      yes: "Hand over",
      danger: true,
    });
    if (!fields) return;
    await attempt(() => post("cluster/handover", { node }), `${primary} hands over to ${node}`);
    this.polling.soon();
  }

  draw() {
    const { answer, error } = this;
    render(
      html`<div class="page-head">
          <h1>Cluster</h1>
          <p class="quiet">${answer?.cluster ? `${answer.cluster}, seen by its node ${answer.node}` : ""}</p>
        </div>
        ${failure("The cluster cannot be shown.", error)} ${answer ? this.parts(answer) : error ? nothing : loading}`,
      this.root,
    );
  }

  parts(answer) {
    if (!answer.cluster) return empty("No cluster", "This gateway is alone: the setting cluster names one.");
    const may = (row) => answer.primary && !answer.failure && row.role === "standby";
    const handover = { key: "handover", label: "Handover", cell: (row) => (may(row) ? this.button(row) : nothing) };
    const columns = [...columnsOf(answer), ...(answer.nodes.some(may) ? [handover] : [])];
    const nodes = table("Table of nodes", columns, answer.nodes, (row) => row.node);
    return html`${
        answer.failure && !isTold(live.now().answer)
          ? html`<p class="message bad" role="alert"><strong>A part of the cluster does not work.</strong> ${answer.failure}</p>`
          : nothing
      }
      ${problems(live.now().answer)} ${facts(now(answer), "facts card")} ${card("nodes-title", "Nodes", nodes)}
      ${card("log-title", "Log", facts(ofLog(answer)))}
      ${card("changes-title", "Changes of the primary", changes(answer.changes))}`;
  }

  button({ node }) {
    return html`<button type="button" aria-label="Hand over to ${node}" @click=${() => this.handOver(node)}>
      Hand over …
    </button>`;
  }
}

/** A node that ended without a word is in the list for some more seconds, with its last role. */
function role(row, primary) {
  if (row.role === "primary" && primary && row.node !== primary) return html`<span class="badge wait">was primary</span>`;
  return html`<span class="badge ${KINDS[row.role] ?? "wait"}">${row.role}</span>`;
}

const columnsOf = ({ primary }) => [
  { key: "node", label: "Node", header: true, cell: (row) => consoleOf(row.url, row.node) },
  { key: "role", label: "Role", cell: (row) => role(row, primary) },
  { key: "address", label: "Address", hide: 2, cell: (row) => html`<span class="mono address">${row.address}</span>` },
  { key: "lag", label: "Lag", tip: MEANS.cluster_lag, number: true, hide: 2, cell: (row) => count(row.lag) },
  { key: "connections", label: "Connections", number: true, hide: 3, cell: (row) => count(row.connections) },
  { key: "version", label: "Version", hide: 4 },
];

/** The list of problems is made now and then. */
const isTold = (overview) => present(overview).some((each) => each.id === "cluster-unavailable");

const now = ({ primary, epoch, role }) => [
  ["Primary", primary ?? html`<span class="badge bad">none</span>`],
  ["Epoch", count(epoch), MEANS.epoch],
  ["This node", role],
];

const ofLog = ({ log, nodes, known }) => [
  ["messages", log.last < log.first ? "none" : `${count(log.first)} to ${count(log.last)}`, MEANS.cluster_log],
  ["size", octets(log.bytes)],
  ["last record", ofTime(Math.max(0, ...nodes.map((each) => each.applied)))],
  ["servers", known === null ? ofServers(log) : `not known now, ${ofTime(known)}: ${ofServers(log)}`],
  ["room", log.room ? ofRoom(log.room) : "no limit is known"],
  ["newest snapshot", log.snapshot ? ofSnapshot(log.snapshot) : "none yet", MEANS.snapshot],
  ["next snapshot after", octets(log.snapshot_due), MEANS.snapshot_due],
];

const ofTime = (seconds) => (seconds ? date(seconds) : "none");
const ofSnapshot = ({ sequence, bytes, made }) => `of message ${count(sequence)}, ${octets(bytes)}, ${date(made)}`;
const ofServers = (log) => log.servers.map(ofServer).join(", ") || "not known";
const ofRoom = ({ what, used, limit }) => `${octets(used)} of ${octets(limit)} used: ${what}`;

function ofServer({ name, leads, leads_lease, current }) {
  const led = [leads && "log", leads_lease && "lease"].filter(Boolean);
  return led.length ? `${name} leads ${led.join(" and ")}` : current ? name : `${name} lags or is away`;
}

function changes(found) {
  if (!found.length) return empty("No change", "No node has become primary since this process began.");
  return html`<ul class="feed" aria-label="Changes of the primary" tabindex="0">
    ${found.map(
      (each) =>
        html`<li class="line">
          <time>${date(each.time)}</time>
          <strong>${each.node}</strong>
          <span class="quiet">epoch ${count(each.epoch)}</span>
          <span class="rest">${each.reason}</span>
        </li>`,
    )}
  </ul>`;
}
