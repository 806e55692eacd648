// One STOMP client of a page, by @stomp/stompjs (vendor/stomp.umd.min.js, a global), and what it is subscribed to.
//
// The subscriptions of the page outlive a connection: stomp.js reconnects by itself, and the new connection subscribes
// again.  A refused subscription is taken off that list, or each new connection would be refused too.

const RETRY = 2000; // milliseconds between attempts, unless the server names another time

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
    this.client = null;
    // destination -> { headers, once: it ends with its connection, id, live: the library's handle while connected }
    this.subscriptions = new Map();
    this.numbers = 0; // of receipts and subscriptions
    this.unconfirmed = ""; // the receipt that the last SEND waits for
  }

  get isOn() {
    return this.client !== null;
  }

  get isConnected() {
    return this.client?.connected ?? false;
  }

  connect(brokerURL, login, passcode) {
    if (this.client) return; // a second click while the first one asked
    this.client = new StompJs.Client({
      brokerURL,
      connectHeaders: login ? { login, passcode } : {},
      reconnectDelay: RETRY,
      onConnect: (frame) => this.connected(frame),
      onStompError: (frame) => this.refused(frame),
      onWebSocketClose: () => this.lost(),
    });
    this.hooks.state("connecting", "Connecting …");
    this.client.activate();
  }

  async disconnect() {
    const leaving = this.client;
    this.client = null;
    this.cut();
    await leaving?.deactivate();
    this.hooks.state("offline", "Not connected");
  }

  subscribe(destination, headers = {}, once = false) {
    if (this.subscriptions.has(destination)) return false;
    const each = { headers, once, id: "", live: null };
    this.subscriptions.set(destination, each);
    if (this.isConnected) this.start(destination, each); // else as soon as it is
    return true;
  }

  unsubscribe(destination) {
    this.subscriptions.get(destination)?.live?.unsubscribe();
    this.subscriptions.delete(destination);
  }

  send(destination, body, headers = {}) {
    const receipt = `send-${++this.numbers}`;
    this.unconfirmed = receipt;
    this.hooks.settled("Sent …");
    this.client.watchForReceipt(receipt, () => {
      this.settle(`Accepted at ${clock(new Date())}`);
    });
    const type = { "content-type": "text/plain;charset=utf-8" };
    this.client.publish({ destination, body, headers: { ...type, ...headers, receipt } });
  }

  /** A SEND that nothing is said about: one of a page's own, not of the person at it. */
  publish(destination, body, headers = {}) {
    this.client.publish({ destination, body, headers });
  }

  connected(frame) {
    this.client.reconnectDelay = RETRY;
    for (const [destination, each] of this.subscriptions) this.start(destination, each);
    const server = frame.headers.server ? ` to ${frame.headers.server}` : "";
    this.hooks.state("connected", `Connected${server}, STOMP ${this.client.connectedVersion}`);
  }

  /** The server's ERROR: shown word for word, save a shutdown, which names the time to come back. */
  refused(frame) {
    if ("retry-after" in frame.headers) {
      this.client.reconnectDelay = Number(frame.headers["retry-after"]) || RETRY; // 0 would mean never
      return;
    }
    const receipt = frame.headers["receipt-id"];
    if (receipt && receipt === this.unconfirmed) this.settle("Refused");
    for (const [destination, each] of this.subscriptions) {
      if (receipt && each.id === receipt) this.drop(destination);
    }
    this.hooks.error(frame.headers.message || "The server refused", frame.body, receipt);
    if (!this.client.connected) this.disconnect(); // the login was refused, and would be refused again
  }

  lost() {
    if (!this.client) return;
    this.cut();
    if (this.unconfirmed) this.settle("Not confirmed: the connection ended before the gateway answered");
    this.hooks.state("connecting", "Connection lost, trying again …");
  }

  /** The connection has gone, and with it what was subscribed. */
  cut() {
    for (const [destination, each] of this.subscriptions) {
      each.live = null;
      if (each.once) this.drop(destination);
    }
  }

  start(destination, each) {
    each.id = `subscription-${++this.numbers}`;
    const headers = { ...each.headers, id: each.id, receipt: each.id };
    each.live = this.client.subscribe(destination, (message) => this.hooks.message(message, destination), headers);
  }

  drop(destination) {
    this.subscriptions.delete(destination);
    this.hooks.dropped(destination);
  }

  settle(text) {
    this.unconfirmed = "";
    this.hooks.settled(text);
  }
}
