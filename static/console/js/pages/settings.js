// Settings, policies and rules in force; and the drain.

import { get, post } from "../api.js";
import { ask } from "../ask.js";
import { value } from "../format.js";
import { html, nothing, render } from "../html.js";
import * as live from "../live.js";
import { table } from "../list.js";
import { card, empty, failure, headers, loading } from "../parts.js";
import { attempt } from "../say.js";

export const settings = { title: "Settings", mount: (root) => new Settings(root) };

const COLUMNS = [
  {
    key: "name",
    label: "Setting",
    header: true,
    cell: (row) =>
      html`<code>${row.name}</code> <span class="below mono whole">= ${value(row.value)}</span>
        <p class="quiet">${prose(row.description)}</p>`,
  },
  { key: "value", label: "Value", hide: 3, cell: (row) => html`<span class="mono whole">${value(row.value)}</span>` },
  {
    key: "source",
    label: "From",
    hide: 2,
    cell: (row) => html`<span class="badge ${changed(row) ? "good" : ""}">${row.source}</span>`,
  },
  {
    key: "default",
    label: "Default",
    hide: 3,
    cell: (row) => html`<span class="mono whole">${value(row.default)}</span>`,
  },
];

/** A sentence with `code` in it. */
function prose(text) {
  return text.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));
}

const changed = (row) => row.source !== "default";

class Settings {
  constructor(root) {
    this.root = root;
    this.answer = null;
    this.error = null;
    this.words = "";
    this.own = false;
    this.ask();
    this.draw();
    this.leave = live.follow(() => this.draw());
  }

  async ask() {
    this.error = null;
    try {
      this.answer = await get("settings");
    } catch (error) {
      this.error = error;
    }
    this.draw();
  }

  async drain() {
    const fields = await ask({
      title: "Drain the gateway",
      text: html`<p>
        The gateway takes no new connections, tells its clients to come back later, and disconnects them. The process
        does not end by itself, and only a restart ends the drain.
      </p>`,
      yes: "Drain",
      danger: true,
    });
    if (!fields) return;
    await attempt(() => post("drain"), "The gateway drains");
    live.soon();
  }

  draw() {
    const { answer, error } = this;
    const drain = live.now().answer?.drain;
    render(
      html`<div class="page-head">
          <h1>Settings</h1>
          <div class="actions">
            <button type="button" class="danger" ?disabled=${Boolean(drain)} @click=${() => this.drain()}>
              ${{ draining: "Draining …", drained: "Drained" }[drain] ?? "Drain …"}
            </button>
          </div>
        </div>
        ${error ? this.failed(error) : nothing} ${answer ? this.parts(answer) : error ? nothing : loading}`,
      this.root,
    );
  }

  failed(error) {
    return html`<div class="stack">
      ${failure("The settings cannot be shown.", error)}
      <div><button type="button" @click=${() => this.ask()}>Try again</button></div>
    </div>`;
  }

  parts({ settings, policies, rules }) {
    const flat = policies.map(({ match, values }) => ({ match, ...values }));
    return html`${this.list(settings)}
    ${entries("Policies", flat, "No policy is set: the defaults apply to every destination.")}
    ${entries("Rules", rules, "No rule is set: every client may send and subscribe.")}`;
  }

  list(all) {
    const found = all.filter(
      (row) => (!this.own || changed(row)) && `${row.name} ${row.description}`.toLowerCase().includes(this.words),
    );
    const set = (changes) => {
      Object.assign(this, changes);
      this.draw();
    };
    return html`<form
        class="fields"
        role="search"
        aria-label="Filter settings"
        @submit=${(event) => event.preventDefault()}
      >
        <label class="wide"
          >Name or description contains
          <input
            type="search"
            @input=${(event) => set({ words: event.target.value.trim().toLowerCase() })}
            autocapitalize="off"
            spellcheck="false"
        /></label>
        <label class="check"
          ><input type="checkbox" @change=${(event) => set({ own: event.target.checked })} /> Only what differs from the
          default</label
        >
      </form>
      ${found.length ? table("Settings", COLUMNS, found, (row) => row.name) : empty("No setting matches")}`;
  }
}

function entries(title, all, none) {
  const told = (each) => Object.entries(each).filter(([, found]) => found !== null);
  const entry = (each) => html`<li>${headers(told(each).map(([name, found]) => [name, value(found)]))}</li>`;
  const content = all.length
    ? html`<ol class="feed">
        ${all.map(entry)}
      </ol>`
    : html`<p class="quiet">${none}</p>`;
  return card(`${title.toLowerCase()}-title`, title, content);
}
