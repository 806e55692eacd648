// Settings, policies and rules in force: what differs from the default first, then the others in the groups that the
// reference has.

import { get, Unreachable } from "../api.js";
import { count, value } from "../format.js";
import { html, nothing, render } from "../html.js";
import { table } from "../list.js";
import { card, empty, failure, headers, loading } from "../parts.js";
import { asWritten } from "../policy.js";
import { whenHere } from "../line.js";

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
];
const CHANGED = [
  ...COLUMNS,
  { key: "source", label: "From", hide: 2, cell: (row) => html`<span class="badge good">${row.source}</span>` },
  {
    key: "default",
    label: "Default",
    hide: 4,
    cell: (row) => html`<span class="mono whole">${value(row.default)}</span>`,
  },
];

/** A sentence with `code` in it; of a link to the documentation its text. */
function prose(text) {
  const plain = text.replace(/\[([^\]]+)\]\([^)]+\)/g, "$1");
  return plain.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));
}

const changed = (row) => row.source !== "default";

class Settings {
  constructor(root) {
    this.root = root;
    this.answer = null;
    this.error = null;
    this.words = "";
    this.ask();
    this.draw();
  }

  async ask() {
    this.error = null;
    try {
      this.answer = await get("settings");
    } catch (error) {
      if (error instanceof Unreachable) {
        await whenHere(); // the banner tells of it meanwhile
        return this.ask();
      }
      this.error = error;
    }
    return this.draw();
  }

  draw() {
    const { answer, error } = this;
    render(
      html`<div class="page-head"><h1>Settings</h1></div>
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
    const found = settings.filter((row) => `${row.name} ${row.description}`.toLowerCase().includes(this.words));
    return html`${this.search()} ${found.length ? this.lists(found) : empty("No setting matches")}
    ${entries("Policies", flat, "No policy is set: the defaults apply to every destination.")}
    ${entries("Rules", rules, "No rule is set: every client may send and subscribe.")}`;
  }

  search() {
    const typed = (event) => {
      this.words = event.target.value.trim().toLowerCase();
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
        <input type="search" @input=${typed} autocapitalize="off" spellcheck="false" />
      </label>
    </form>`;
  }

  lists(found) {
    const own = found.filter(changed);
    const others = Map.groupBy(
      found.filter((row) => !changed(row)),
      (row) => row.group,
    );
    const none = html`<p class="quiet">${this.words ? "None of these matches." : "Every setting has its default."}</p>`;
    return html`${card(
      "own-title",
      "Differs from the default",
      own.length ? table("Changed settings", CHANGED, own, (row) => row.name) : none,
    )}
    ${card("default-title", "As by default", html`<div class="groups">${[...others].map((each) => this.group(each))}</div>`)}`;
  }

  group([name, rows]) {
    return html`<details ?open=${this.words !== ""}>
      <summary><strong>${name}</strong> <span class="quiet">${count(rows.length)}</span></summary>
      ${table(name, COLUMNS, rows, (row) => row.name)}
    </details>`;
  }
}

function entries(title, all, none) {
  const told = (each) => Object.entries(each).filter(([, found]) => found !== null);
  const entry = (each) => html`<li>${headers(told(each).map(([name, found]) => [name, asWritten(name, found)]))}</li>`;
  const content = all.length
    ? html`<ol class="feed whole" aria-label=${title}>
        ${all.map(entry)}
      </ol>`
    : html`<p class="quiet">${none}</p>`;
  return card(`${title.toLowerCase()}-title`, title, content);
}
