// One STOMP client of a page: @stomp/stompjs (vendor/stomp.umd.min.js, a global) with the page helper (client.js), which
// connects and subscribes again by itself; and what it is subscribed to, which outlives even a logout.

import { GatewayClient, StompError } from "./client.js";

const RETRY = 2000; // milliseconds at most between attempts: a person watches, and few pages are open

const TOPICS = ["/topic/", "/exchange/", "/user/", "/temp-topic/", "/session/events"];

/** True if a subscriber takes messages away from others: of a queue, under any of its names. */
export const isQueue = (name) => name !== "" && !TOPICS.some((start) => name.startsWith(start));

/** Headers of a SUBSCRIBE to a queue that shows its messages, also later ones, and takes none away. */
export const BROWSE = { browser: "true", "browser-end": "false" };

/** True when the library is there; it is not in a checkout where `make static` never ran. */
export const isInstalled = () => typeof StompJs !== "undefined";

/**
 * Where the gateway's WebSocket is: on its own port, or, behind a proxy, where this page came from.
 * @param file address of config.json, as the page sees it
 */
export async function findAddress(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`config.json: ${response.status} ${response.statusText}`);
  const config = await response.json();
  const scheme = config.websocket_tls || location.protocol === "https:" ? "wss:" : "ws:";
  const host = config.websocket_port ? `${location.hostname}:${config.websocket_port}` : location.host;
  return `${scheme}//${host}${config.websocket_path}`;
}

/** 14:03:07, in languages that count to twelve, too. */
export const clock = (date) => date.toLocaleTimeString([], { hourCycle: "h23" });

/** The body of a message as text. */
export function readable(octets) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch {
    return `(${octets.length} bytes that are not text)`;
  }
}

export class Talk {
  /**
   * @param hooks state(name, text): "offline", "connecting" or "connected"; error(title, text, receipt), of the frame
   *   that was refused; message(it, destination), of the subscription; dropped(destination), a subscription that has
   *   ended; settled(text), what became of the last SEND
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.gateway = null;
    // destination -> { headers, once: it ends with its connection, end: what unsubscribes }
    this.subscriptions = new Map();
    this.server = "";
    this.sent = 0; // SENDs, of which only the last is told about
  }

  get isOn() {
    return this.gateway !== null;
  }

  get isConnected() {
    return this.gateway?.client.connected ?? false;
  }

  connect(brokerURL, login, passcode) {
    if (this.gateway) return; // a second click while the first one asked
    const client = new StompJs.Client({
      brokerURL,
      connectHeaders: login ? { login, passcode } : {},
      onConnect: (frame) => (this.server = frame.headers.server ? ` to ${frame.headers.server}` : ""),
      onWebSocketClose: () => this.lost(),
    });
    this.gateway = new GatewayClient(client, { maxDelay: RETRY, onError: (error) => this.refused(error) });
    for (const [destination, each] of this.subscriptions) this.start(destination, each);
    const connected = () => this.hooks.state("connected", `Connected${this.server}, STOMP ${client.connectedVersion}`);
    this.gateway.onConnect(connected);
    this.hooks.state("connecting", "Connecting …");
    this.gateway.activate();
  }

  async disconnect() {
    const leaving = this.gateway;
    this.gateway = null;
    this.cut();
    await leaving?.deactivate();
    this.hooks.state("offline", "Not connected");
  }

  subscribe(destination, headers = {}, once = false) {
    if (this.subscriptions.has(destination)) return false;
    const each = { headers, once, end: null };
    this.subscriptions.set(destination, each);
    if (this.gateway) this.start(destination, each); // else as soon as there is one
    return true;
  }

  unsubscribe(destination) {
    this.subscriptions.get(destination)?.end?.();
    this.subscriptions.delete(destination);
  }

  async send(destination, body, headers = {}) {
    const number = ++this.sent;
    const settle = (text) => number === this.sent && this.hooks.settled(text);
    settle("Sent …");
    try {
      const type = { "content-type": "text/plain;charset=utf-8" };
      await this.gateway.send(destination, body, { ...type, ...headers });
      settle(`Accepted at ${clock(new Date())}`);
    } catch (error) {
      const isRefused = error instanceof StompError;
      settle(isRefused ? "Refused" : "Not confirmed");
      if (isRefused) this.refused(error);
    }
  }

  /** A SEND that nothing is said about: one of a page's own, not of the person at it. */
  publish(destination, body, headers = {}) {
    this.gateway.client.publish({ destination, body, headers });
  }

  /** The server's ERROR, shown word for word. */
  refused(error) {
    this.hooks.error(error.message, error.detail, error.frame.headers["receipt-id"]);
    if (error.isFinal) this.disconnect();
  }

  lost() {
    if (!this.gateway) return;
    this.cut();
    this.hooks.state("connecting", "Connection lost, trying again …");
  }

  /** The connection has gone, and with it what is only for once. */
  cut() {
    for (const [destination, each] of this.subscriptions) {
      if (!each.once) continue;
      this.unsubscribe(destination);
      this.hooks.dropped(destination);
    }
  }

  start(destination, each) {
    const onError = (error) => {
      this.subscriptions.delete(destination);
      this.hooks.dropped(destination);
      this.refused(error);
    };
    const take = (message) => this.hooks.message(message, destination);
    each.end = this.gateway.subscribe(destination, take, { headers: each.headers, onError });
  }
}
