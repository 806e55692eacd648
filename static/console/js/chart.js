// A chart: lines over time by uPlot, and above them the same in words, which is what a screen reader gets.
//
// The words are a table: each line's value now (or where the pointer is), its mean and its peak.  The canvas is an
// image whose name says the same in a sentence, renewed rarely.  uPlot sets its styles by script, which the content
// security policy allows.

import { clock } from "./format.js";
import { html, render } from "./html.js";

const HEIGHT = 176; // pixels, as in charts.css
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800]; // seconds
const NEAR = 4;
const RENAME = 10_000; // milliseconds between two names of the image
const dark = matchMedia("(prefers-color-scheme: dark)");

const charts = new Set();
dark.addEventListener("change", () => charts.forEach((each) => each.redraw()));

const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) target.chart?.resize(contentRect.width);
});

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A chart in a <figure>.
 * @param spec title; format(value); lines [{ key, label, colour: 1 to 5, dash, fill, limit }]; a limit far above all
 *   other lines is not drawn, or they would lie on the ground; group, whose pointers go together;
 *   least, the axis' least top; steps that the axis may take
 */
export class Chart {
  constructor(figure, spec) {
    this.figure = figure;
    this.spec = spec;
    this.data = [[], ...spec.lines.map(() => [])];
    this.pointed = null;
    this.renamed = -Infinity;
    this.figure.className = "card chart";
    this.words();
    this.plot = this.figure.querySelector(".plot");
    this.plot.chart = this;
    this.draw();
    charts.add(this);
    sizes.observe(this.plot);
  }

  leave() {
    sizes.unobserve(this.plot);
    charts.delete(this);
    this.chart.destroy();
  }

  /** @param times seconds since the epoch; columns, one list of values for each line; null is a gap */
  set(times, columns) {
    this.data = [times, ...columns];
    this.chart.setData(this.data);
    this.words();
    if (performance.now() - this.renamed < RENAME || !times.length) return;
    this.renamed = performance.now();
    this.plot.setAttribute("aria-label", this.sentence());
  }

  resize(width) {
    if (width > 0) this.chart.setSize({ width, height: HEIGHT });
  }

  redraw() {
    this.chart.destroy();
    this.draw();
  }

  words() {
    const { title, lines, format } = this.spec;
    const at = this.pointed === null ? "now" : clock(this.data[0][this.pointed]);
    render(
      html`<figcaption>
          <h2>${title}</h2>
          <table>
            <thead>
              <tr>
                <th scope="col"><span class="hush">Line</span></th>
                <th scope="col" class="number">${at}</th>
                <th scope="col" class="number p2">mean</th>
                <th scope="col" class="number">peak</th>
              </tr>
            </thead>
            <tbody>
              ${lines.map((line, place) => {
                const { value, mean, peak } = this.figures(place + 1);
                return html`<tr>
                  <th scope="row"><span class="key c${line.colour} ${line.dash ? "dash" : ""}"></span>${line.label}</th>
                  <td class="number">${format(value)}</td>
                  <td class="number p2">${format(mean)}</td>
                  <td class="number">${format(peak)}</td>
                </tr>`;
              })}
            </tbody>
          </table>
        </figcaption>
        <div class="plot" role="img" aria-label=${title}></div>`,
      this.figure,
    );
  }

  figures(place) {
    const values = this.data[place].filter((each) => each !== null);
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
    const stroke = (line) => (line.colour === 5 ? colour("--edge") : colour(`--line-${line.colour}`));
    this.chart = new uPlot(
      {
        width: this.plot.clientWidth || 300,
        height: HEIGHT,
        padding: [8, 16, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: false, y: false },
          points: { size: 7 },
          sync: group ? { key: group } : undefined,
        },
        scales: { y: { range: () => [0, this.top(least)] } },
        series: [
          {},
          ...lines.map((line) => ({
            stroke: stroke(line),
            width: 1.75,
            dash: line.dash ? [6, 4] : undefined,
            fill: line.fill ? `${stroke(line)}1c` : undefined,
            points: { show: false },
          })),
        ],
        axes: [
          {
            ...axis,
            grid: { show: false },
            space: 56,
            incrs: STEPS,
            size: 24,
            values: (_, times) => times.map((at) => clock(at).slice(0, this.digits())),
          },
          { ...axis, grid, size: 62, space: 34, incrs: steps, values: (_, values) => values.map(format) },
        ],
        hooks: { setCursor: [(chart) => this.point(chart.cursor.idx ?? null)] },
      },
      this.data,
      this.plot,
    );
  }

  top(least) {
    const peaks = this.spec.lines.map((line, place) => ({
      limit: line.limit,
      peak: this.figures(place + 1).peak ?? 0,
    }));
    const highest = Math.max(least, ...peaks.map(({ limit, peak }) => (limit ? 0 : peak)));
    return 1.1 * Math.max(highest, ...peaks.map(({ limit, peak }) => (limit && peak < NEAR * highest ? peak : 0)));
  }

  /** Seconds are worth showing for some minutes only. */
  digits() {
    const times = this.data[0];
    return times.length && times.at(-1) - times[0] > 240 ? 5 : 8;
  }

  point(place) {
    if (place === this.pointed) return;
    this.pointed = place;
    this.words();
  }
}
