// Messages beside the page: visible notices, and words for screen readers alone, which follow what a person did and
// never the clock.

const $ = (id) => document.getElementById(id);
const STAYS = 6000; // milliseconds; an error stays until it is dismissed

/** For screen readers: the outcome of a click that changes only what is shown. */
export function announce(text) {
  $("said").textContent = text;
}

/** @param kind "good" or "bad" */
export function notice(text, kind = "good") {
  const box = document.createElement("div");
  const words = document.createElement("p");
  const button = document.createElement("button");
  box.className = `notice ${kind}`;
  box.setAttribute("role", kind === "bad" ? "alert" : "status");
  words.textContent = text;
  button.type = "button";
  button.className = "plain close";
  button.textContent = "×";
  button.setAttribute("aria-label", "Dismiss");
  button.addEventListener("click", () => box.remove());
  $("notices").append(box);
  box.append(words, button); // after it is there, or some screen readers say nothing
  if (kind !== "bad") setTimeout(() => box.remove(), STAYS);
}

/** Do something for a person, and say how it ended: true when it was done. */
export async function attempt(action, done) {
  try {
    const answer = await action();
    const text = typeof done === "function" ? done(answer) : done;
    if (text) notice(text);
    return true;
  } catch (error) {
    notice(error.message, "bad");
    return false;
  }
}
