// The one door to lit-html: its templates make text of whatever is put into them, never markup, and they change only
// what differs, so that focus, scroll and selection stay where they are when new numbers come.

import { render as draw } from "../../vendor/lit-html/lit-html.js";

export { html, nothing, svg } from "../../vendor/lit-html/lit-html.js";
export { live } from "../../vendor/lit-html/directives/live.js";
export { ref } from "../../vendor/lit-html/directives/ref.js";
export { repeat } from "../../vendor/lit-html/directives/repeat.js";

/** Draw a template in an element.  A row that moves to another place loses the focus in a browser, and gets it back. */
export function render(template, root) {
  const focused = document.activeElement;
  draw(template, root);
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
