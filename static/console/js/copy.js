// Copying: a button that puts a text on the clipboard.

import { html } from "./html.js";
import { announce, notice } from "./say.js";

/** @param what for screen readers: "the message id" */
export function copyButton(text, what) {
  const copy = async (event) => {
    const button = event.currentTarget;
    if (!(await copied(text))) return notice("The browser does not allow copying on this page: select the text", "bad");
    announce(`Copied ${what}`);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
    return undefined;
  };
  return html`<button type="button" class="plain copy" aria-label="Copy ${what}" title="Copy ${what}" @click=${copy}>
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <rect x="2.5" y="2.5" width="8" height="8" rx="1.5"></rect>
      <rect class="front" x="5.5" y="5.5" width="8" height="8" rx="1.5"></rect>
      <path d="M3 8.5 L6.5 12 L13 4.5"></path>
    </svg>
  </button>`;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return byHand(text); // plain HTTP from another machine has no clipboard
  }
}

function byHand(text) {
  const field = document.createElement("textarea");
  const here = document.activeElement;
  field.value = text;
  (here.closest("dialog") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  here.focus();
  return done;
}
