// Tooltips: what a figure means, in one sentence, at the pointer, at the focus or at a touch.  One element shows them
// all, in the top layer, so that no table cuts it off; Escape hides it.

import { html } from "./html.js";

const tip = document.createElement("div");
tip.id = "tip";
tip.className = "tip";
tip.setAttribute("role", "tooltip");
tip.popover = "manual";
document.body.append(tip);

/** A word with its meaning.  Words without one are as they are. */
export function term(word, meaning) {
  if (!meaning) return word;
  return html`<span class="term" tabindex="0" data-tip=${meaning}>${word}</span>`;
}

let about = null;

function show(element) {
  if (element === about) return;
  hide();
  about = element;
  tip.textContent = element.dataset.tip;
  element.setAttribute("aria-describedby", "tip");
  tip.showPopover();
  const [at, own] = [element.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.min(Math.max(8, at.left), innerWidth - own.width - 8);
  const below = at.bottom + 6 + own.height < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? at.bottom + 6 : at.top - own.height - 6}px`;
}

function hide() {
  about?.removeAttribute("aria-describedby");
  about = null;
  if (tip.matches(":popover-open")) tip.hidePopover();
}

const within = (event) => event.target.closest?.("[data-tip]");
const follow = (event) => {
  const found = within(event);
  if (found) show(found);
  else hide();
};

document.addEventListener("pointerover", follow);
document.addEventListener("focusin", follow);
document.addEventListener("scroll", hide, true);
addEventListener("hashchange", hide);
document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
