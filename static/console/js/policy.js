// What a policy's values mean: 0 and "none" say something else for each key, as docs/policies.md has it.

import { period, value } from "./format.js";

const OF_STREAMS = ["log_messages", "log_bytes", "log_age"];
const SECONDS = ["backoff", "backoff_max", "time_to_live", "idle_timeout", "log_age", "presence_grace"];
const ZERO = {
  max_messages: "no limit but memory",
  max_bytes: "no limit but memory",
  max_attempts: "no limit",
  backoff: "at once",
  time_to_live: "never expires",
  idle_timeout: "never",
  presence_grace: "none",
};
const NONE = {
  conflate_by: "no header",
  durable: "those that ask for it",
  journal_bodies: "as the setting journal_bodies",
};

const OF_QUEUES = ["max_messages", "max_bytes", "when_full", "auto_delete"];
const OF_TOPICS = ["slow_consumer", "slow_messages", "subscriptions_keep", ...OF_STREAMS, "presence", "presence_grace"];

/** Whether a key says something of such a destination; the queue of a durable subscription has the policy of its topic. */
export const counts = (name, { kind, durable_subscription: durable }) =>
  durable || !(kind === "queue" ? OF_TOPICS : OF_QUEUES).includes(name);

/**
 * A value, as a person reads it.
 * @param row the destination: its name, and its policy
 */
export function meaning(name, found, { name: destination, policy }) {
  if (name === "dead_letter") return (found ?? grave(destination)) || "nowhere";
  if (OF_STREAMS.includes(name) && !found)
    return OF_STREAMS.some((each) => policy[each]) ? unlimited(name, policy) : "no stream";
  if (found === 0 && name in ZERO) return ZERO[name];
  if ((found === null || found === "") && name in NONE) return NONE[name];
  return asWritten(name, found);
}

/** A value of a policy, with its unit. */
export const asWritten = (name, found) =>
  SECONDS.includes(name) && typeof found === "number" ? period(found) : value(found);

/** Where dead letters go of themselves: those of a dead-letter queue, and of topics, nowhere. */
function grave(destination) {
  const [, rest] = /^\/queue\/(?!dlq\.)(.*)$/.exec(destination) ?? [];
  return rest && `/queue/dlq.${rest}`;
}

/** A limit of a stream that has others. */
const unlimited = (name, policy) => (name === "log_bytes" && !policy.log_messages ? "16 MiB" : "no limit but the others");
