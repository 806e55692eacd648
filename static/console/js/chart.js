// A chart: lines over time by uPlot, with a small legend that has each line's last value.  Where the pointer is, a hint
// shows all lines at that moment, as the legends of the other charts do; dragging zooms in, for all charts of a group, and a double click out again.
//
// The canvas is an image whose name says the same in a sentence, renewed rarely.  uPlot sets its styles by script, which
// the content security policy allows.

import { clock, date } from "./format.js";
import { html, render } from "./html.js";

const HEIGHT = 150; // pixels
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800]; // seconds
const NEAR = 4;
const NARROW = 8; // pixels; less was a click
const DAY = 86_400;
const RENAME = 10_000; // milliseconds between two names of the image
const dark = matchMedia("(prefers-color-scheme: dark)");

const charts = new Set();
dark.addEventListener("change", () => charts.forEach((each) => each.redraw()));

const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) target.chart?.resize(contentRect);
});

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A chart in a <figure>.
 * @param spec title; format(value); lines [{ key, label, colour: 1 to 6, dash, fill, limit }]; a limit far above all
 *   other lines is not drawn, or they would lie on the ground; group, whose pointers go together;
 *   least, the axis' least top; steps that the axis may take; height in pixels;
 *   zoom(from, to), called when a part was selected, and with nothing to see all again
 */
export class Chart {
  constructor(figure, spec) {
    this.figure = figure;
    this.spec = { height: HEIGHT, ...spec };
    this.data = [[], ...spec.lines.map(() => [])];
    this.window = null;
    this.pointed = null;
    this.renamed = -Infinity;
    this.figure.className = "card chart";
    this.words();
    this.plot = this.figure.querySelector(".plot");
    this.plot.chart = this;
    this.plot.style.flexBasis = `${this.spec.height}px`;
    this.hint = this.figure.querySelector(".hint");
    this.draw();
    charts.add(this);
    sizes.observe(this.plot);
  }

  leave() {
    sizes.unobserve(this.plot);
    charts.delete(this);
    this.chart.destroy();
  }

  /**
   * @param times seconds since the epoch; columns, one list of values for each line; null is a gap
   * @param window [from, to] to show; null: from the first time to the last
   */
  set(times, columns, window = null) {
    this.data = [times, ...columns];
    this.window = window;
    this.chart.setData(this.data);
    this.words();
    if (performance.now() - this.renamed < RENAME || !times.length) return;
    this.renamed = performance.now();
    this.plot.setAttribute("aria-label", this.sentence());
  }

  resize({ width, height }) {
    if (width > 0) this.chart.setSize({ width, height: Math.floor(height) });
  }

  redraw() {
    this.chart.destroy();
    this.draw();
  }

  words() {
    const { title, lines, format } = this.spec;
    render(
      html`<figcaption>
          <h2>${title}</h2>
          <ul class="legend">
            ${lines.map(
              (line, place) =>
                html`<li>
                  <span class="key c${line.colour} ${line.dash ? "dash" : ""}"></span>${line.label}
                  <b>${format(this.figures(place + 1).value)}</b>
                </li>`,
            )}
          </ul>
        </figcaption>
        <div class="plot" role="img" aria-label=${title}></div>
        <div class="hint" aria-hidden="true" hidden></div>`,
      this.figure,
    );
  }

  /** All lines at the moment that is pointed at, beside the pointer. */
  tell() {
    const { lines, format } = this.spec;
    const at = this.pointed === null ? undefined : this.data[0][this.pointed];
    // The other charts of the group show that moment in their legends.
    this.hint.hidden = at === undefined || !this.chart.over.matches(":hover");
    if (this.hint.hidden) return;
    const long = this.data[0].at(-1) - this.data[0][0] > DAY / 2;
    render(
      html`<strong>${long ? date(at) : clock(at)}</strong>
        <dl>
          ${lines.map(
            (line, place) =>
              html`<dt><span class="key c${line.colour} ${line.dash ? "dash" : ""}"></span>${line.label}</dt>
                <dd>${format(this.data[place + 1][this.pointed])}</dd>`,
          )}
        </dl>`,
      this.hint,
    );
    const { left, width } = this.chart.over.getBoundingClientRect();
    const inside = left - this.figure.getBoundingClientRect().left;
    const x = this.chart.valToPos(at, "x");
    const own = this.hint.offsetWidth;
    this.hint.style.left = `${inside + (x + own + 24 < width ? x + 12 : Math.max(0, x - own - 12))}px`;
    this.hint.style.top = `${this.plot.offsetTop + 8}px`;
  }

  figures(place) {
    const values = this.data[place].filter((each) => each !== null && each !== undefined);
    const value = this.pointed === null ? this.data[place].at(-1) : this.data[place][this.pointed];
    if (!values.length) return { value, mean: null, peak: null };
    return { value, mean: values.reduce((sum, each) => sum + each, 0) / values.length, peak: Math.max(...values) };
  }

  sentence() {
    const { title, lines, format } = this.spec;
    const each = lines.map((line, place) => {
      const { value, mean, peak } = this.figures(place + 1);
      return `${line.label} ${format(value)} at the end, ${format(mean)} in the mean, ${format(peak)} at most`;
    });
    return `${title} from ${clock(this.data[0][0])} to ${clock(this.data[0].at(-1))}: ${each.join("; ")}`;
  }

  draw() {
    const { lines, format, group, steps, least = 1 } = this.spec;
    const axis = { stroke: colour("--quiet"), font: `11px ${colour("--sans")}`, ticks: { show: false } };
    const grid = { stroke: colour("--line"), width: 1 };
    const stroke = (line) => colour({ 5: "--edge", 6: "--danger" }[line.colour] ?? `--line-${line.colour}`);
    this.chart = new uPlot(
      {
        width: this.plot.clientWidth || 300,
        height: this.plot.clientHeight || this.spec.height,
        padding: [8, 28, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: Boolean(this.spec.zoom), y: false, setScale: false, dist: 8 },
          bind: { dblclick: () => () => this.spec.zoom?.() },
          points: { size: 7 },
          sync: group ? { key: group } : undefined,
        },
        scales: {
          x: { range: (_, from, to) => this.window ?? (from === to && from !== null ? [from - 1, to] : [from, to]) },
          y: { range: () => [0, this.top(least)] },
        },
        series: [
          {},
          ...lines.map((line) => ({
            stroke: stroke(line),
            width: 1.75,
            dash: line.dash ? [6, 4] : undefined,
            fill: line.fill ? `${stroke(line)}1c` : undefined,
            points: { show: alone, size: 4 },
          })),
        ],
        axes: [
          {
            ...axis,
            grid: { show: false },
            space: 64,
            incrs: STEPS,
            size: 24,
            values: (chart, times, _, __, step) => times.map((at) => clock(at).slice(0, step < 60 ? 8 : 5)),
          },
          { ...axis, grid, size: 62, space: 34, incrs: steps, values: (_, values) => values.map(format) },
        ],
        hooks: {
          setCursor: [(chart) => this.point(chart.cursor.idx ?? null)],
          setSelect: [(chart) => this.zoom(chart)],
        },
      },
      this.data,
      this.plot,
    );
  }

  top(least) {
    const [from, to] = this.window ?? [-Infinity, Infinity];
    const inside = (_, place) => this.data[0][place] >= from && this.data[0][place] <= to;
    const peaks = this.spec.lines.map((line, place) => ({
      limit: line.limit,
      peak: Math.max(0, ...this.data[place + 1].filter(inside)),
    }));
    const highest = Math.max(least, ...peaks.map(({ limit, peak }) => (limit ? 0 : peak)));
    return 1.1 * Math.max(highest, ...peaks.map(({ limit, peak }) => (limit && peak < NEAR * highest ? peak : 0)));
  }

  point(place) {
    if (place === null && this.pointed === null) return;
    this.pointed = place;
    this.words();
    this.tell();
  }

  zoom(chart) {
    const { left, width } = chart.select;
    if (width < NARROW) return;
    const [from, to] = [left, left + width].map((x) => chart.posToVal(x, "x"));
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.spec.zoom(from, to);
  }
}

/** Points are drawn where a line has only one. */
const alone = (chart, series) => chart.data[series].filter((each) => each !== null).length === 1;
