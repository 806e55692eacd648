// The one door to lit-html: its templates make text of whatever is put into them, never markup, and they change only
// what differs, so that focus, scroll and selection stay where they are when new numbers come.

export { html, nothing, render } from "../../vendor/lit-html/lit-html.js";
export { live } from "../../vendor/lit-html/directives/live.js";
export { ref } from "../../vendor/lit-html/directives/ref.js";
export { repeat } from "../../vendor/lit-html/directives/repeat.js";
