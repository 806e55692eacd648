// Sparklines: the last minutes of a row, as a line without axes.  The figures beside it say the same.

import { html, svg } from "./html.js";

const [WIDTH, HEIGHT, POINTS] = [96, 22, 60];

/** @param series { published, lost, ... }, lists of equal length, the oldest first; null: it was idle */
export function spark(series) {
  const lists = series ? [series.published, series.delivered] : [];
  const peak = Math.max(1, ...lists.flat());
  const [received, sent] = lists.map((values) => path(values, peak));
  return html`<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" width=${WIDTH} height=${HEIGHT} aria-hidden="true">
    <path class="base" d="M0 ${HEIGHT - 1} H${WIDTH}"></path>
    ${series ? svg`<path class="out" d=${sent}></path><path class="in" d=${received}></path>` : ""}
    ${series ? series.lost.map((value, place) => (value > 0 ? mark(place + POINTS - series.lost.length) : "")) : ""}
  </svg>`;
}

const across = (place) => ((place * WIDTH) / (POINTS - 1)).toFixed(1);

/** The line; before its first value it was idle. */
function path(values, peak) {
  const first = POINTS - values.length;
  const up = (value) => (HEIGHT - 1 - (value / peak) * (HEIGHT - 3)).toFixed(1);
  const points = values.map((value, place) => `${across(first + place)} ${up(value)}`);
  return `M0 ${HEIGHT - 1} H${across(first)} L${points.join(" L")}`;
}

/** Where something was lost. */
const mark = (place) => svg`<circle class="lost" cx=${across(place)} cy="2" r="1.5"></circle>`;
