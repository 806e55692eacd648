// The banner while the gateway drains, and afterwards: why it is not ready, which clients are left,
// and what to do then.

import { many } from "./format.js";
import { now } from "./live.js";

const OVER = "Drained: no client is connected. Stop or restart the process now.";

const $ = (id) => document.getElementById(id);

/** As the last answer of GET /overview has it. */
export function show() {
  const { drain, reason, sessions, connections } = now().answer;
  $("drain").hidden = !drain;
  if (!drain) return;
  const done = drain === "drained";
  say($("drain-text"), done ? OVER : `Not ready: ${reason}.`);
  // A screen reader hears the sentences once each: the countdown is for the eye alone.
  say($("drain-left"), done ? "" : `${many(sessions.total, "session")}, ${many(connections, "connection")} left`);
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
