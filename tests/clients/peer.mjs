// What the scenarios are made of: a connected client whose happenings come to inboxes, and comparisons that throw.
//
// Used in node and in Chromium.  Every wait is bounded.

const PATIENCE = 8_000; // milliseconds until a scenario gives up waiting

/** Things that arrive, in order, for one reader. */
export class Inbox {
  #items = [];
  #waiting = null;

  constructor(name) {
    this.name = name;
  }

  put(item) {
    if (this.#waiting) {
      this.#waiting(item);
      this.#waiting = null;
    } else {
      this.#items.push(item);
    }
  }

  next(patience = PATIENCE) {
    if (this.#items.length) return Promise.resolve(this.#items.shift());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = null;
        reject(new Error(`nothing came to ${this.name} within ${patience} ms`));
      }, patience);
      this.#waiting = (item) => {
        clearTimeout(timer);
        resolve(item);
      };
    });
  }

  /** The bodies of the next messages, with commas between them. */
  async bodies(count) {
    const found = [];
    while (found.length < count) found.push((await this.next()).body);
    return found.join();
  }

  get size() {
    return this.#items.length;
  }
}

/** One connected client, with what happens to it in inboxes. */
export class Peer {
  constructor(home, options = {}) {
    this.connects = new Inbox("connects");
    this.closes = new Inbox("closes");
    this.errors = new Inbox("errors");
    this.unhandled = new Inbox("onUnhandledMessage"); // what came without a call of subscribe
    this.client = new home.Stomp.Client({
      brokerURL: home.url,
      reconnectDelay: 0,
      heartbeatIncoming: 0,
      heartbeatOutgoing: 0,
      ...(home.version ? { stompVersions: new home.Stomp.Versions([home.version]) } : {}),
      onConnect: (frame) => this.connects.put(frame),
      onWebSocketClose: (event) => this.closes.put(event),
      onStompError: (frame) => this.errors.put(frame),
      onUnhandledMessage: (message) => this.unhandled.put(message),
      ...options,
    });
    this.receipts = 0;
  }

  static async open(home, options) {
    const peer = new Peer(home, options);
    peer.client.activate();
    const connected = await peer.connects.next();
    const expected = home.version ?? "1.2";
    equal(connected.headers.version ?? "1.0", expected, "the version agreed");
    return peer;
  }

  /** Subscribe, and return once the gateway has confirmed it. */
  async subscribe(destination, headers = {}) {
    const inbox = new Inbox(destination);
    const receipt = this.receipt();
    inbox.subscription = this.client.subscribe(destination, (message) => inbox.put(message), {
      ...headers,
      receipt: receipt.id,
    });
    await receipt.came;
    return inbox;
  }

  /** Send, and return once the gateway has confirmed it. */
  async send(destination, body, headers = {}) {
    const receipt = this.receipt();
    const content = typeof body === "string" ? { body } : { binaryBody: body };
    this.client.publish({ destination, ...content, headers: { ...headers, receipt: receipt.id } });
    await receipt.came;
  }

  /** Return when so many milliseconds have passed at the gateway: a delayed message is the clock. */
  async pass(milliseconds) {
    const topic = `/topic/clock-${Math.random()}`;
    const inbox = await this.subscribe(topic);
    await this.send(topic, "", { "x-delay": String(milliseconds) });
    await inbox.next();
    inbox.subscription.unsubscribe();
  }

  receipt() {
    const id = `receipt-${++this.receipts}`;
    const inbox = new Inbox(id);
    this.client.watchForReceipt(id, (frame) => inbox.put(frame));
    return { id, came: inbox.next() };
  }

  async close() {
    await this.client.deactivate();
    if (this.errors.size) throw new Error(`ERROR: ${(await this.errors.next()).headers.message}`);
  }
}

export function equal(found, expected, what) {
  if (found !== expected) {
    throw new Error(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
  }
}

export function sameOctets(found, expected, what) {
  equal(found.length, expected.length, `${what}, octets`);
  for (let i = 0; i < found.length; i++) {
    if (found[i] !== expected[i]) equal(found[i], expected[i], `${what}, octet ${i}`);
  }
}
