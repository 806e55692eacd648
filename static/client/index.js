// stomp-gateway-client: all that a page does around one Client of @stomp/stompjs 7, which it is given.
//
//   before a connection   a pause that grows, with jitter, and at least as long as `retry-after`; then a fresh token
//   CONNECTED             subscriptions begin again, each behind its last message; then what is unsent; then onConnect
//   a token ends soon     the next one goes to /session/renew
//   ERROR                 what the gateway refuses is dropped, and its caller told; all the rest comes back
//
// It imports nothing: it works with npm and a bundler, and in a page as /client.js of a gateway.  index.d.ts documents it.

const FINAL = new Set(["login refused", "client-id taken over"]); // another attempt would end in the same way
const NO_STREAM = "the topic keeps no stream";
const TOPIC = /^\/(topic|exchange|user)\//; // without a stream, messages of an outage are lost
const PATTERN = /(^|[./])(\*\*?|#|>)([./]|$)/;
const FIRST_NUMBER = 1e15; // streams begin with the time in microseconds; a lower `seq` is a header of the application
const STABLE = 10_000; // milliseconds after which a connection counts as a success
const MOST_WAITING = 1_000; // messages that wait for a connection or a RECEIPT
const ACK_DELAY = 200; // milliseconds in which one ACK of a named resume gathers messages

export class StompError extends Error {
  constructor(frame) {
    super(frame.headers.message || "the server refused");
    Object.assign(this, { name: "StompError", detail: frame.body, frame, isFinal: FINAL.has(this.message) });
  }
}

export function backoff(failures, { delay = 1_000, maxDelay = 30_000, retryAfter = 0 } = {}, random = Math.random) {
  return retryAfter + random() * Math.min(maxDelay, delay * 2 ** failures);
}

export async function fetchTicket(url = "/api/v1/tickets", options = { credentials: "include" }) {
  const answer = await fetch(url, { method: "POST", ...options });
  if (!answer.ok) throw new Error(`no ticket: ${answer.status} ${answer.statusText}`);
  return (await answer.json()).ticket;
}

export class GatewayClient {
  #options;
  #subscriptions = new Set();
  #unsent = new Map(); // id -> what waits for its RECEIPT
  #questions = new Map(); // id -> what waits for its answer
  #actions = new Map(); // of onConnect -> what to call when the connection ends
  #failures = -1; // in a row; -1: the next attempt is the first
  #pause = 0;
  #retryAfter = 0;
  #connectedAt = 0; // 0: not connected
  #wake = () => {};
  #prefix = Array.from(crypto.getRandomValues(new Uint32Array(3)), (word) => word.toString(36)).join("");
  #count = 0;
  #id = () => `${this.#prefix}-${++this.#count}`;
  #report = (error, tell = this.#options.onError ?? console.error) => guarded(tell, error);

  constructor(client, options = {}) {
    this.client = client;
    this.#options = options;
    const { beforeConnect, onConnect, onStompError, onWebSocketClose, onUnhandledMessage } = client;
    client.configure({
      reconnectDelay: 1, // the pause is in #prepare
      reconnectTimeMode: 0,
      connectionTimeout: client.connectionTimeout || 10_000,
      discardWebsocketOnCommFailure: true, // a dead machine does not answer the closing handshake
      beforeConnect: () => this.#prepare(beforeConnect),
      onConnect: (frame) => (guarded(onConnect, frame), this.#connected()),
      onStompError: (frame) => (guarded(onStompError, frame), this.#refused(new StompError(frame))),
      onWebSocketClose: (event) => (this.#closed(), guarded(onWebSocketClose, event)),
      onUnhandledMessage: (message) =>
        (this.#questions.get(message.headers["correlation-id"])?.resolve ?? onUnhandledMessage)(message),
    });
  }

  activate() {
    this.#failures = -1;
    this.#pause = 0;
    this.client.activate();
  }

  async deactivate() {
    const left = this.client.deactivate();
    this.#wake();
    await left;
    const error = new Error("the client was deactivated");
    for (const each of [...this.#unsent.values(), ...this.#questions.values()]) each.reject(error);
  }

  onConnect(action) {
    this.#actions.set(action, null);
    if (this.client.connected) this.#actions.set(action, guarded(action));
    return () => this.#actions.delete(action);
  }

  subscribe(destination, callback, options = {}) {
    const subscription = new Subscription(destination, callback, options);
    this.#subscriptions.add(subscription);
    if (this.client.connected) subscription.begin(this.client, this.#id());
    return (headers) => {
      this.#subscriptions.delete(subscription);
      subscription.end(headers);
    };
  }

  send(destination, body, headers = {}) {
    const id = this.#id();
    const message = { destination, ...contentOf(body), headers: { "dedup-id": id, ...headers, receipt: id } };
    return this.#settled(this.#unsent, id, () => message);
  }

  request(destination, body, { headers = {}, timeout = 10_000 } = {}) {
    const id = this.#id();
    const due = Date.now() + timeout;
    const answer = this.#settled(this.#questions, id, () => {
      const expiration = `${Math.max(1, due - Date.now())}`;
      const ours = { "reply-to": "/temp-queue/answers", "correlation-id": id, receipt: id };
      return { destination, ...contentOf(body), headers: { expiration, ...headers, ...ours } };
    });
    const late = () => this.#questions.get(id)?.reject(new Error(`no answer from ${destination} in ${timeout} ms`));
    const timer = setTimeout(late, timeout);
    return answer.then(answered).finally(() => clearTimeout(timer));
  }

  /** A message that is transmitted as soon as there is a connection, and stands in `list` until it is settled. */
  #settled(list, id, messageOf) {
    if (list.size >= MOST_WAITING) return Promise.reject(new Error(`${MOST_WAITING} messages wait for the gateway`));
    return new Promise((resolve, reject) => {
      const settling = (settle) => (value) => list.delete(id) && settle(value);
      const waiting = { isSent: false, resolve: settling(resolve), reject: settling(reject) };
      waiting.transmit = () => {
        waiting.isSent = true;
        this.client.watchForReceipt(id, () => list === this.#unsent && waiting.resolve());
        this.client.publish(messageOf());
      };
      list.set(id, waiting);
      if (this.client.connected) waiting.transmit();
    });
  }

  /** The pause, and the token.  stomp.js would never try again after a rejection, so all attempts are here. */
  async #prepare(beforeConnect) {
    const { token } = this.#options;
    for (;;) {
      await new Promise((resolve) => setTimeout((this.#wake = resolve), this.#pause));
      if (!this.client.active) return;
      try {
        if (token) this.client.connectHeaders = { ...this.client.connectHeaders, passcode: await token() };
        return await beforeConnect(this.client);
      } catch (error) {
        this.#postpone();
        this.#report(error);
      }
    }
  }

  #postpone() {
    this.#pause = backoff(++this.#failures, { ...this.#options, retryAfter: this.#retryAfter });
    this.#retryAfter = 0;
  }

  #connected() {
    this.#connectedAt = Date.now();
    if (this.#options.token) this.client.subscribe("/session/events", (message) => this.#renew(message));
    for (const each of this.#subscriptions) each.begin(this.client, this.#id());
    for (const each of [...this.#unsent.values(), ...this.#questions.values()]) each.transmit();
    for (const action of [...this.#actions.keys()]) this.#actions.set(action, guarded(action));
  }

  #closed() {
    const since = this.#connectedAt;
    this.#connectedAt = 0;
    if (since && Date.now() - since > STABLE) this.#failures = -1;
    this.#postpone();
    for (const each of this.#subscriptions) each.lose();
    const error = new Error("the connection was lost before the answer came");
    for (const each of [...this.#questions.values()]) if (each.isSent) each.reject(error);
    for (const end of since ? [...this.#actions.values()] : []) if (typeof end === "function") guarded(end);
  }

  async #renew({ headers }) {
    if (!headers.event?.endsWith("-expiring")) return;
    // If that fails the session ends, and the next connection asks again.
    const body = await (async () => this.#options.token())().catch((error) => void this.#report(error));
    if (body && this.client.connected) this.client.publish({ destination: "/session/renew", body });
  }

  #refused(error) {
    const { "receipt-id": id, "retry-after": pause } = error.frame.headers;
    this.#retryAfter = Number(pause) || 0;
    if (pause !== undefined) return; // a shutdown, or a store that is full: the same will be possible later
    const subscription = [...this.#subscriptions].find((each) => id && each.receipt === id);
    const waiting = this.#unsent.get(id) ?? this.#questions.get(id);
    if (subscription) this.#failures = -1; // a page may have several that rules forbid, and all others wait
    if (waiting) waiting.reject(error);
    else if (!subscription) this.#report(error);
    else if (!subscription.forgets(error)) {
      this.#subscriptions.delete(subscription);
      this.#report(error, subscription.options.onError);
    }
    if (error.isFinal) this.deactivate();
  }
}

class Subscription {
  #live = null; // stomp.js's handle of this connection
  #wasLive = false; // from now on it misses the messages of an outage
  #last = new Map(); // topic -> number of its last message
  #gap = ""; // id of the last message that told of one: it may come again, unless its ACK has arrived
  #work = Promise.resolve(); // callbacks of a named resume, one after the other
  #done = null; // the last message whose callback has ended, to be acknowledged
  #timer = 0;

  constructor(destination, callback, options) {
    Object.assign(this, { destination, callback, options, receipt: "" });
  }

  begin(client, receipt) {
    const position = this.#position();
    this.receipt = receipt;
    client.watchForReceipt(receipt, () => {
      // Whatever the page loads anew now, the subscription brings all that is newer.
      const isGap = !position && this.#wasLive && TOPIC.test(this.destination);
      if (isGap) guarded(this.options.onGap, { destination: this.destination });
      this.#wasLive = true;
    });
    const headers = { ...this.options.headers, ...position, receipt };
    const live = (this.#live = client.subscribe(this.destination, (message) => this.#take(message, live), headers));
  }

  lose() {
    this.#live = this.#done = null;
  }

  end(headers) {
    this.callback = null;
    this.#acknowledge();
    this.#live?.unsubscribe(headers);
    this.lose();
  }

  /** True: the topic has no stream any more, so there is no position either. */
  forgets(error) {
    const was = this.#last.size;
    if (error.message === NO_STREAM) this.#last.clear();
    return was > this.#last.size;
  }

  /** Headers of where it begins; null: with the next message. */
  #position() {
    const { resume, from } = this.options;
    const isKnown = this.#last.size > 0 && !PATTERN.test(this.destination);
    const next = isKnown ? Math.max(...this.#last.values()) + 1 : from === "last" && this.#wasLive ? "first" : from;
    return resume ? { ack: "client", ...startOf(next), resume } : startOf(next); // a gateway may not know the name
  }

  #take(message, live) {
    const { destination, gap, seq, "first-seq": first, "message-id": id } = message.headers;
    if (gap === "true" && id !== this.#gap) {
      this.#gap = id;
      this.#last.delete(destination);
      guarded(this.options.onGap, { destination, firstSeq: Number(first) || undefined });
      if (!seq && first) this.#last.set(destination, Number(first) - 1);
    }
    if (gap === "true" && !seq) return; // it says no more than that
    const number = Number(seq);
    const isNew = !(number <= this.#last.get(destination)); // unacknowledged ones come again
    if (number >= FIRST_NUMBER && isNew) this.#last.set(destination, number);
    const handle = () => isNew && guarded(this.callback, message);
    const finish = () => {
      if (live === this.#live) this.#done = message;
      this.#timer ||= setTimeout(() => this.#acknowledge(), ACK_DELAY);
    };
    if (this.options.resume) this.#work = this.#work.then(handle).catch(rethrow).then(finish);
    else handle();
  }

  #acknowledge() {
    this.#timer = void clearTimeout(this.#timer);
    this.#done?.ack(); // and all before it
    this.#done = null;
  }
}

function startOf(from) {
  if (from === undefined) return null;
  if (from instanceof Date) return { "x-stream-offset": `timestamp=${Math.floor(from.getTime() / 1000)}` };
  return typeof from === "number" ? { "from-seq": `${from}` } : { "x-stream-offset": from };
}

function contentOf(body) {
  if (typeof body !== "string" && !(body instanceof Uint8Array)) throw TypeError("a body is a string or a Uint8Array");
  return typeof body === "string" ? { body } : { binaryBody: body };
}

/** Report an error of the page's own functions, which must not stop stomp.js in the middle of a frame. */
const rethrow = (error) => void Promise.reject(error);
const answered = (message) => (message.headers["reply-error"] ? Promise.reject(new Error(message.body)) : message);

function guarded(action, argument) {
  try {
    return action?.(argument);
  } catch (error) {
    rethrow(error);
  }
}
