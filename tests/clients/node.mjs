// Runs the scenarios with @stomp/stompjs in node, over the package `ws`.

import * as Stomp from "@stomp/stompjs";
import { WebSocket } from "ws";

import { converse } from "./conversation.mjs";
import { scenarios } from "./scenarios.mjs";

globalThis.WebSocket = WebSocket;

await converse((job, ask) => scenarios[job.scenario]({ Stomp, ...job, ask }));
process.exit(0);
