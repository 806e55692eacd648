// Runs scenarios with @stomp/stompjs in node, over the package `ws`.  `job.file` has them; else scenarios.mjs.

import * as Stomp from "@stomp/stompjs";
import { WebSocket } from "ws";

import { converse } from "./conversation.mjs";

globalThis.WebSocket = WebSocket;

await converse(async (job, ask) => {
  const { scenarios } = await import(`./${job.file ?? "scenarios.mjs"}`);
  return scenarios[job.scenario]({ Stomp, ...job, ask });
});
process.exit(0);
