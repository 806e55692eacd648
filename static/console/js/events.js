// Server-sent events by fetch(): an EventSource does not tell why it was refused, and reconnects by itself.

import { address, Refused } from "./api.js";

/**
 * Read a stream until it ends.
 * @param heard gets the name of an event and its data
 * @throws Refused, in the gateway's words; TypeError when the connection broke; AbortError by `signal`
 */
export async function listen(path, heard, signal) {
  const response = await fetch(address(path), { signal, headers: { accept: "text/event-stream" }, cache: "no-store" });
  if (!response.ok) {
    const answer = await response.json().catch(() => null);
    throw new Refused(response.status, answer?.error ?? `The gateway answered ${response.status}`);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) tell(part, heard);
  }
}

/** A part is an event's lines, or a comment that keeps the connection alive. */
function tell(part, heard) {
  const fields = new Map(part.split("\n").map((line) => line.split(/: ?(.*)/s)));
  if (fields.has("event")) heard(fields.get("event"), JSON.parse(fields.get("data")));
}
