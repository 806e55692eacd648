// A list that the gateway pages, sorts and filters.  What is shown stands in the page's address (q, sort, offset,
// limit, and the filters by name), so the table only draws what the address says and what the gateway answered.
// Rows are patched by their key: nothing flickers, and what has the focus keeps it.

import { get } from "./api.js";
import { count, many } from "./format.js";
import { html, live, nothing, render, repeat } from "./html.js";
import { failure } from "./parts.js";
import { poll } from "./poll.js";
import { go } from "./router.js";
import { announce } from "./say.js";
import { term } from "./tips.js";

const EVERY = 1000; // milliseconds between two looks
const TYPING = 250; // milliseconds after the last letter
const SIZES = [50, 100, 500, 1000];
const DEFAULT_SIZE = 100;

/**
 * A list.
 * @param spec page (its name in the address), path (of the API), list (key of the rows in the answer), noun, key(row),
 *   columns [{ key, label, tip, cell(row), sort, number, header, hide: 2, 3 or 4 }], search (label, or none),
 *   filters [{ name, label, options: [[value, text]] } or { name, label }], fixed(limit), a query that is always
 *   sent, empty
 * @param changed draws the page
 */
export class List {
  constructor(spec, query, changed) {
    this.spec = spec;
    this.query = query;
    this.changed = changed;
    this.answer = null;
    this.error = null;
    this.busy = true;
    this.typing = 0;
    this.said = false;
    this.polling = poll(
      (signal) => this.ask(signal),
      EVERY,
      (error) => this.fail(error),
    );
  }

  update(query) {
    this.query = query;
    this.busy = true;
    this.said = true;
    this.changed();
    this.polling.again();
  }

  again() {
    this.polling.again();
  }

  leave() {
    clearTimeout(this.typing);
    this.polling.stop();
  }

  get rows() {
    return this.answer?.[this.spec.list] ?? [];
  }

  async ask(signal) {
    const asked = this.query;
    const { limit = DEFAULT_SIZE, ...rest } = Object.fromEntries([...asked].map(([name, text]) => [name, text.trim()]));
    const answer = await get(this.spec.path, { ...rest, limit, ...this.spec.fixed?.(Number(limit)) }, signal);
    if (asked !== this.query) return;
    const past = answer.offset > 0 && answer.offset >= answer.total; // rows of the last page have gone
    if (past) this.set({ offset: Math.max(0, answer.total - (answer.total % answer.limit || answer.limit)) }, true);
    Object.assign(this, { answer, error: null, busy: false });
    if (this.said) announce(this.summary());
    this.said = false;
    this.changed();
  }

  fail(error) {
    Object.assign(this, { error, busy: false });
    this.changed();
  }

  /** Change what is shown; all but a page begins at the first row. */
  set(changes, replace = false) {
    const query = { ...Object.fromEntries(this.query), ...("offset" in changes ? {} : { offset: "" }), ...changes };
    if (Number(query.offset) === 0) query.offset = "";
    go(this.spec.page, query, replace);
  }

  summary() {
    const { offset, total } = this.answer;
    if (total === 0) return `No ${this.spec.noun}s`;
    return `${count(offset + 1)}–${count(offset + this.rows.length)} of ${many(total, this.spec.noun)}`;
  }

  // --- what it looks like

  fields() {
    const { search, filters = [] } = this.spec;
    const typed = (event) => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.set({ [event.target.name]: event.target.value }, true), TYPING);
    };
    const text = (name, label, wide) =>
      html`<label class=${wide ? "wide" : ""}
        >${label}
        <input
          type="search"
          name=${name}
          .value=${this.query.get(name) ?? ""}
          @input=${typed}
          autocapitalize="off"
          spellcheck="false"
      /></label>`;
    const choice = ({ name, label, options }) =>
      html`<label
        >${label}
        <select name=${name} @change=${(event) => this.set({ [name]: event.target.value })}>
          ${options.map((each) => option(each, this.query.get(name) ?? ""))}
        </select></label
      >`;
    return html`<form
      class="fields"
      role="search"
      aria-label=${`Filter ${this.spec.noun}s`}
      @submit=${(event) => event.preventDefault()}
    >
      ${search ? text("q", search, true) : nothing}
      ${filters.map((each) => (each.options ? choice(each) : text(each.name, each.label, false)))}
    </form>`;
  }

  table() {
    if (this.error) return failure("The list cannot be shown.", this.error);
    if (!this.answer) return html`<div class="scroll"><div class="empty" role="status">Loading …</div></div>`;
    if (this.answer.total === 0) return html`<div class="scroll"><div class="empty">${this.nothing()}</div></div>`;
    const { columns, key, noun } = this.spec;
    const heading = (column) => this.heading(column);
    return table(`Table of ${noun}s`, columns, this.rows, key, { heading, busy: this.busy });
  }

  nothing() {
    const filtered = [...this.query.keys()].some((name) => !["sort", "limit", "offset"].includes(name));
    if (!filtered) return this.spec.empty;
    return html`<strong>Nothing matches</strong><span>No ${this.spec.noun} has these properties.</span>
      <button type="button" @click=${() => go(this.spec.page, {})}>Show all</button>`;
  }

  heading(column) {
    if (!column.sort) return plainHeading(column);
    const [, minus, sorted] = /^(-?)(.*)$/.exec(this.query.get("sort") ?? "");
    const here = sorted === column.key;
    // The greatest number and the first name are what one looks for.
    const next = here ? (minus ? column.key : `-${column.key}`) : column.number ? `-${column.key}` : column.key;
    const order = here ? (minus ? "descending" : "ascending") : "none";
    return html`<th scope="col" class=${classesOf(column)} aria-sort=${order}>
      <button type="button" class="sort" data-tip=${column.tip ?? nothing} @click=${() => this.set({ sort: next })}>
        ${column.label}
      </button>
    </th>`;
  }

  paging() {
    if (!this.answer || this.answer.total === 0) return nothing;
    const { offset, limit, total } = this.answer;
    const turn = (to, word) =>
      html`<button type="button" ?disabled=${to < 0 || to >= total} @click=${() => this.set({ offset: to })}>
        ${word}
      </button>`;
    return html`<div class="paging">
      <span class="count">${this.summary()}</span>
      <label class="quiet p2"
        >Rows
        <select @change=${(event) => this.set({ limit: event.target.value })}>
          ${SIZES.map((size) => html`<option value=${size} .selected=${live(size === limit)}>${size}</option>`)}
        </select></label
      >
      ${
        total > limit || offset
          ? html`${turn(offset === 0 ? -1 : Math.max(0, offset - limit), "Previous")} ${turn(offset + limit, "Next")}`
          : nothing
      }
    </div>`;
  }
}

const classesOf = ({ number, hide }) => `${number ? "number" : ""} ${hide ? `p${hide}` : ""}`;
const option = ([value, words], chosen) =>
  html`<option value=${value} .selected=${live(value === chosen)}>${words}</option>`;
const plainHeading = (column) => html`<th scope="col" class=${classesOf(column)}>${term(column.label, column.tip)}</th>`;

function cell(column, row) {
  const classes = `${classesOf(column)} ${column.header ? "name" : ""}`;
  const content = column.cell ? column.cell(row) : row[column.key];
  if (column.header) return html`<th scope="row" class=${classes}>${content}</th>`;
  return html`<td class="${classes} ${[0, null, ""].includes(row[column.key]) ? "zero" : ""}">${content ?? "–"}</td>`;
}

/** A page that is a list and nothing else; `beside` stands beside its title. */
export function listPage(title, spec, beside = nothing) {
  return {
    title,
    mount(root, query) {
      const draw = () =>
        render(
          html`<div class="page-head"><h1>${title}</h1>${beside}</div>
            ${list.fields()}${list.table()}${list.paging()}`,
          root,
        );
      const list = new List(spec, query, () => draw());
      draw();
      return list;
    },
  };
}

/**
 * A table, in a region that scrolls sideways by itself.
 * @param columns as a list has them
 * @param key(row) tells a row from all others
 * @param heading(column) its <th>; where none is given, nothing sorts
 * @param busy other rows are on their way
 */
export function table(label, columns, rows, key, { heading = plainHeading, busy = false } = {}) {
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0" aria-busy=${String(busy)}>
    <table>
      <thead>
        <tr>
          ${columns.map(heading)}
        </tr>
      </thead>
      <tbody>
        ${repeat(
          rows,
          key,
          (row) =>
            html`<tr>
              ${columns.map((each) => cell(each, row))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
