// The gateway's state and its last ten minutes, asked for once for all of the console: often while the overview is
// shown, else only as often as the head needs it.

import { get } from "./api.js";
import { poll } from "./poll.js";

const KEEP = 600; // samples
const OFTEN = 1000;
const SELDOM = 5000;
const FIELDS = ["published", "delivered", "acknowledged", "dropped", "dead_lettered", "expired", "conflated", "errors"];
FIELDS.push("sessions", "connections", "waiting", "octets", "memory", "cpu", "lag_ms", "p50", "p95", "p99");

const listeners = new Set();
let polling = null;
let watched = 0;
let answer = null;
let samples = [];

/** The last answer of GET /overview, or null, and the samples that are known, the oldest first. */
export const now = () => ({ answer, samples });

/** Begin to ask, or begin anew. */
export function begin() {
  polling?.stop();
  samples = [];
  polling = poll(ask, () => (watched || answer?.drain === "draining" ? OFTEN : SELDOM));
}

/** Ask now: something was done that the answer tells of. */
export const soon = () => polling?.soon();

/** Be told of every answer; returns what ends it. */
export function follow(listener, { closely = false } = {}) {
  listeners.add(listener);
  if (closely) watched += 1;
  if (closely) polling?.soon();
  if (answer) listener();
  return () => {
    listeners.delete(listener);
    if (closely) watched -= 1;
  };
}

async function ask(signal) {
  answer = await get("overview", { since: samples.at(-1)?.at }, signal);
  for (const each of answer.samples) add(each);
  samples = samples.slice(-KEEP);
  for (const listener of listeners) listener();
}

function add(sample) {
  const last = samples.at(-1);
  if (last && sample.at <= last.at) return;
  // Where nothing was measured, or nothing was heard, a line has a gap.
  if (last && sample.at - last.at > 3 * answer.step) {
    samples.push({ at: last.at + answer.step, ...Object.fromEntries(FIELDS.map((name) => [name, null])) });
  }
  samples.push(sample);
}
