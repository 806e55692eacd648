// What node has by itself from 22 on, for programs that are written for browsers.
import { WebSocket } from "ws";

globalThis.WebSocket ??= WebSocket;
