// Questions: a dialog with fields, what happens on yes, and focus that returns to where it was.

import { html, nothing, render } from "./html.js";

/**
 * Ask before something is done.
 * @param question title; text (a template); fields (a template, optional); yes, the button's word; danger
 * @returns the form's fields, or null for no
 */
export function ask({ title, text, fields = nothing, yes, danger = false }) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "ask-title");
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = null;
    const submit = (event) => {
      event.preventDefault();
      answer = Object.fromEntries(new FormData(event.target));
      dialog.close();
    };
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    render(
      html`<form @submit=${submit}>
        <h2 id="ask-title">${title}</h2>
        <div>${text}</div>
        ${fields}
        <div class="actions">
          <button type="button" @click=${() => dialog.close()}>Cancel</button>
          <button type="submit" class=${danger ? "main danger" : "main"}>${yes}</button>
        </div>
      </form>`,
      dialog,
    );
    dialog.showModal();
    // What cannot be undone does not begin with Enter.
    (dialog.querySelector("input, select, textarea") ?? dialog.querySelector("button")).focus();
  });
}

/** A sheet that shows something; `content(close)` gives its template.  Resolves when it is closed. */
export function sheet(label, content) {
  const dialog = document.createElement("dialog");
  dialog.className = "sheet";
  dialog.setAttribute("aria-label", label);
  document.body.append(dialog);
  render(
    content(() => dialog.close()),
    dialog,
  );
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve();
    });
  });
}
