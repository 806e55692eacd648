// Questions: a dialog with fields, what happens on yes, and focus that returns to where it was.
// A dialog belongs to the page that opened it, and goes with it: the answer is no.

import { html, nothing, render } from "./html.js";

const shown = new Set();

/** The page is another one, or about to be. */
export function dismiss() {
  for (const dialog of [...shown].reverse()) dialog.close(); // the uppermost first: focus goes back by steps
}

/** An empty dialog, and what becomes of it: `then` is called when it is closed. */
function opened(then) {
  const dialog = document.createElement("dialog");
  document.body.append(dialog);
  shown.add(dialog);
  dialog.addEventListener("close", () => {
    shown.delete(dialog);
    dialog.remove();
    then();
  });
  return dialog;
}

/**
 * Ask before something is done.
 * @param question title; text (a template); fields (a template, optional); yes, the button's word; danger
 * @returns the form's fields, or null for no
 */
export function ask({ title, text, fields = nothing, yes, danger = false }) {
  return new Promise((resolve) => {
    let answer = null;
    const dialog = opened(() => resolve(answer));
    dialog.setAttribute("aria-labelledby", "ask-title");
    const submit = (event) => {
      event.preventDefault();
      answer = Object.fromEntries(new FormData(event.target));
      dialog.close();
    };
    // What cannot be undone is not begun by Enter, neither at the start nor at the end of a field.
    const pressed = (event) => {
      if (danger && event.key === "Enter" && event.target.matches("input")) event.preventDefault();
    };
    render(
      html`<form @submit=${submit} @keydown=${pressed}>
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
    ((danger ? null : dialog.querySelector("input, select, textarea")) ?? dialog.querySelector("button")).focus();
  });
}

/** A sheet that shows something; `content(close)` gives its template.  Resolves when it is closed. */
export function sheet(label, content) {
  return new Promise((resolve) => {
    const dialog = opened(resolve);
    dialog.className = "sheet";
    dialog.setAttribute("aria-label", label);
    render(
      content(() => dialog.close()),
      dialog,
    );
    dialog.showModal();
  });
}
