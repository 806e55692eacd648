// The banner of a gateway without a store: whatever waits is gone with the process.  A click closes it for this tab.

import { count } from "./format.js";
import { now } from "./live.js";

const KEY = "memory-only";
const $ = (id) => document.getElementById(id);

export const isDismissed = () => sessionStorage.getItem(KEY) !== null;

/** As the last answer of GET /overview has it. */
export function show() {
  const { store, standby, drain, messages, problems } = now().answer;
  $("memory").hidden = store !== null || Boolean(standby) || Boolean(drain) || isDismissed();
  const all = messages.waiting + messages.delayed + messages.retained + messages.unacknowledged;
  const text = all ? `a restart or a crash would lose ${count(all)} now` : "a restart or a crash loses them";
  if ($("memory-text").textContent !== text) $("memory-text").textContent = text;
  const remedy = problems.find(({ id }) => id === "memory-only")?.remedy ?? "";
  if ($("memory-remedy").textContent !== remedy) $("memory-remedy").textContent = remedy;
}

$("memory-close").addEventListener("click", () => {
  sessionStorage.setItem(KEY, "closed");
  show();
});
