// What a page or a node program does with @stomp/stompjs, one function a scenario; each throws when it fails.
//
// Beside this file, which has what every STOMP server does, there are rabbitmq.mjs, activemq.mjs and spring.mjs: programs
// as the users of those brokers write them, with those brokers' headers.
//
// The same files run in node (node.mjs) and in Chromium (chromium.mjs): they touch nothing but `home`:
//   home.Stomp      the library: { Client, Versions }
//   home.url        WebSocket address of the gateway, or of the nginx in front of it
//   home.version    the one STOMP version to offer, or null for the library's own list
//   home.name       a word no other scenario uses, for destinations
//   home.ask(what)  has the test cut or freeze the connections that are open now
// Nothing here sleeps to see that something does NOT come: a later message that is known to come proves it.

import { Inbox, Peer, equal, sameOctets } from "./peer.mjs";

/** A topic reaches every subscriber, a queue one of them; UNSUBSCRIBE ends it. */
async function pubsub(home) {
  const [topic, queue] = [`/topic/${home.name}`, `/queue/${home.name}`];
  const [a, b] = [await Peer.open(home), await Peer.open(home)];
  const news = [await a.subscribe(topic), await b.subscribe(topic)];
  await a.send(topic, "to all", { kind: "news" });
  for (const inbox of news) {
    const message = await inbox.next();
    equal(message.body, "to all", "body of the topic's message");
    equal(message.headers.destination, topic, "destination");
    equal(message.headers.kind, "news", "header of the sender");
  }

  await a.send(queue, "kept until somebody subscribes");
  const first = await b.subscribe(queue);
  equal((await first.next()).body, "kept until somebody subscribes", "waiting message");
  const second = await a.subscribe(queue);
  await a.send(queue, "1");
  await a.send(queue, "2");
  const got = [(await first.next()).body, (await second.next()).body].sort();
  equal(got.join(), "1,2", "two messages for two consumers");

  news[0].subscription.unsubscribe();
  await a.send(topic, "after unsubscribe");
  equal((await news[1].next()).body, "after unsubscribe", "the other subscriber's message");
  await a.send(queue, "last"); // a's outbox is in order: a message of the topic would have come before this
  await a.send(queue, "last");
  equal((await second.next()).body, "last", "after unsubscribe");
  equal(news[0].size, 0, "messages after unsubscribe");
  await a.close();
  await b.close();
}

/** Every octet, NUL included, comes back; the empty body too. */
async function binary(home) {
  const topic = `/topic/${home.name}`;
  const peer = await Peer.open(home);
  const inbox = await peer.subscribe(topic);
  const octets = Uint8Array.from({ length: 1024 }, (_, i) => (i * 7) % 256);
  await peer.send(topic, octets, { "content-type": "application/octet-stream" });
  const message = await inbox.next();
  sameOctets(message.binaryBody, octets, "binary body");
  equal(message.headers["content-type"], "application/octet-stream", "content-type");
  await peer.send(topic, new Uint8Array(0));
  equal((await inbox.next()).binaryBody.length, 0, "octets of the empty body");
  await peer.send(topic, "text\0with a NUL \u20ac");
  equal((await inbox.next()).body, "text\0with a NUL \u20ac", "text with a NUL");
  await peer.close();
}

/** UTF-8 in header names, values, destinations and bodies; in 1.2 the escaped characters as well. */
async function utf8(home) {
  const peer = await Peer.open(home);
  const topic = `/topic/${home.name}/\u0433\u043e\u0440\u043e\u0434-\u{1f30d}`;
  const inbox = await peer.subscribe(topic);
  const headers = { "\u043a\u043b\u044e\u0447": "\u503c \u20ac \u{1f600}" };
  // The library escapes only values, and only in 1.2; 1.1 forbids what it would send.
  if (home.version !== "1.0" && home.version !== "1.1") headers.escaped = "a:b\nc\rd\\e";
  await peer.send(topic, "gr\u00fc\u00dfe \u{1f44b}", headers);
  const message = await inbox.next();
  equal(message.body, "gr\u00fc\u00dfe \u{1f44b}", "body");
  equal(message.headers.destination, topic, "destination");
  for (const [name, value] of Object.entries(headers)) equal(message.headers[name], value, `header ${name}`);
  await peer.close();
}

/** A RECEIPT for each frame that asked, with its id unchanged; DISCONNECT waits for its own. */
async function receipts(home) {
  const peer = await Peer.open(home);
  const topic = `/topic/${home.name}`;
  const inbox = await peer.subscribe(topic); // SUBSCRIBE
  await peer.send(topic, "x"); // SEND
  const ids = ["plain", "with space", "\u20ac-\u{1f600}", "1.2,3"];
  for (const id of ids) {
    const came = new Inbox(`receipt ${id}`);
    peer.client.watchForReceipt(id, (frame) => came.put(frame));
    peer.client.publish({ destination: topic, body: id, headers: { receipt: id } });
    const frame = await came.next();
    equal(frame.headers["receipt-id"], id, "receipt-id");
    equal(frame.body, "", "body of the RECEIPT");
  }
  const gone = peer.receipt();
  inbox.subscription.unsubscribe({ receipt: gone.id }); // UNSUBSCRIBE
  await gone.came;
  const farewell = new Inbox("onDisconnect");
  peer.client.onDisconnect = (frame) => farewell.put(frame);
  await peer.close(); // DISCONNECT
  equal((await farewell.next()).command, "RECEIPT", "answer to DISCONNECT");
}

/** client-individual: what is refused, or held by a connection that breaks, goes to another consumer. */
async function redelivery(home) {
  const queue = `/queue/${home.name}`;
  const individual = { ack: home.version === "1.0" ? "client" : "client-individual" };
  const producer = await Peer.open(home);
  const broken = await Peer.open(home);
  const held = await broken.subscribe(queue, individual);
  for (const body of ["one", "two", "three"]) await producer.send(queue, body);
  const messages = [await held.next(), await held.next(), await held.next()];
  equal(messages.map((m) => m.body).join(), "one,two,three", "order");
  equal(messages[0].headers.redelivered ?? "false", "false", "redelivered at first");

  const other = await Peer.open(home);
  const inbox = await other.subscribe(queue, individual);
  if (home.version === "1.0") {
    messages[0].ack(); // 1.0 knows no NACK, and its ACK is cumulative: the first of three covers itself alone
  } else {
    messages[1].ack(); // that one alone
    messages[0].nack();
    const again = await inbox.next();
    equal(again.body, "one", "the refused message at the other consumer");
    equal(again.headers.redelivered, "true", "redelivered");
    equal(again.headers["message-id"], messages[0].headers["message-id"], "its message-id");
    again.ack();
  }
  const confirmed = broken.receipt();
  broken.client.publish({ destination: `/topic/${home.name}`, headers: { receipt: confirmed.id } });
  await confirmed.came; // the gateway has carried out all of the above

  broken.client.forceDisconnect(); // no DISCONNECT: the socket just ends
  for (const body of home.version === "1.0" ? ["two", "three"] : ["three"]) {
    const message = await inbox.next();
    equal(message.body, body, "redelivered after the connection broke");
    equal(message.headers.redelivered, "true", "redelivered");
    message.ack();
  }
  await producer.send(queue, "end");
  equal((await inbox.next()).body, "end", "nothing else was redelivered");
  await broken.close();
  await other.close();
  await producer.close();
}

/** BEGIN, SEND, ACK and COMMIT are one; ABORT leaves no trace. */
async function transaction(home) {
  const queue = `/queue/${home.name}`;
  const peer = await Peer.open(home);
  const inbox = await peer.subscribe(queue, { ack: "client" });

  const aborted = peer.client.begin();
  await peer.send(queue, "never", { transaction: aborted.id });
  aborted.abort();

  const committed = peer.client.begin();
  await peer.send(queue, "first", { transaction: committed.id });
  await peer.send(queue, "second", { transaction: committed.id });
  await peer.send(queue, "outside");
  const outside = await inbox.next();
  equal(outside.body, "outside", "before COMMIT");
  outside.ack({ transaction: committed.id });
  committed.commit();
  const messages = [await inbox.next(), await inbox.next()];
  equal(messages.map((m) => m.body).join(), "first,second", "after COMMIT");

  const undone = peer.client.begin();
  messages[1].ack({ transaction: undone.id });
  undone.abort();
  const confirmed = peer.receipt();
  inbox.subscription.unsubscribe({ receipt: confirmed.id });
  await confirmed.came;
  const later = await peer.subscribe(queue);
  equal((await later.next()).body, "first", "the aborted ACK acknowledges nothing");
  equal((await later.next()).body, "second", "the aborted ACK acknowledges nothing");
  await peer.send(queue, "end");
  equal((await later.next()).body, "end", "the committed ACK, the aborted SEND");
  await peer.close();
}

/** Beats keep an idle session; when the network swallows them, the gateway finds it and gives messages back. */
async function heartbeat(home) {
  const queue = `/queue/${home.name}`;
  const interval = 400;
  const beats = {
    heartbeatIncoming: interval,
    heartbeatOutgoing: interval,
    discardWebsocketOnCommFailure: true, // else it waits for the silent side to answer its close
  };
  const idle = await Peer.open(home, beats);
  const held = await idle.subscribe(queue, { ack: "client" });
  await new Promise((resolve) => setTimeout(resolve, 6 * interval)); // the beats themselves are what is looked at
  equal(idle.closes.size, 0, "closes of an idle session that beats");
  await idle.send(queue, "held");
  equal((await held.next()).body, "held", "message after six idle intervals");

  await home.ask("freeze"); // from here on idle's octets vanish, and its socket stays open
  const other = await Peer.open(home);
  const inbox = await other.subscribe(queue);
  const message = await inbox.next();
  equal(message.body, "held", "given back by the silent client");
  equal(message.headers.redelivered, "true", "redelivered");
  await idle.closes.next(); // the client misses the gateway's beats as well
  await other.close();
}

/** 1 MiB, as binary and as text, whole and cut into WebSocket messages of 16 KiB by the client. */
async function large(home) {
  const topic = `/topic/${home.name}`;
  const octets = new Uint8Array(1024 * 1024);
  for (let i = 0; i < octets.length; i++) octets[i] = (i * 31 + (i >> 8)) % 256;
  const text = "0123456789abcde\u20ac".repeat(64 * 1024).slice(0, 1024 * 1024);
  for (const options of [{}, { splitLargeFrames: true, maxWebSocketChunkSize: 16 * 1024 }]) {
    const peer = await Peer.open(home, options);
    const inbox = await peer.subscribe(topic);
    await peer.send(topic, text);
    equal((await inbox.next()).body === text, true, "1 MiB of text is the same");
    if (!options.splitLargeFrames) {
      await peer.send(topic, octets);
      sameOctets((await inbox.next()).binaryBody, octets, "1 MiB of octets");
    }
    await peer.close();
  }
}

/** The connection is cut: the client comes back by itself, subscribes again and goes on. */
async function reconnect(home) {
  const queue = `/queue/${home.name}`;
  const inbox = new Inbox(queue);
  const peer = new Peer(home, { reconnectDelay: 200 });
  const subscribed = new Inbox("subscribed");
  peer.client.onConnect = () => {
    const receipt = peer.receipt();
    peer.client.subscribe(queue, (message) => inbox.put(message), { receipt: receipt.id });
    receipt.came.then(() => subscribed.put());
  };
  peer.client.activate();
  await subscribed.next();
  await peer.send(queue, "before");
  equal((await inbox.next()).body, "before", "before the cut");

  await home.ask("cut");
  await peer.closes.next();
  const other = await Peer.open(home);
  await other.send(queue, "meanwhile");
  await subscribed.next();
  equal((await inbox.next()).body, "meanwhile", "sent while the client was away");
  await peer.send(queue, "after");
  equal((await inbox.next()).body, "after", "after the cut");
  await other.close();
  await peer.close();
}

export const scenarios = {
  pubsub,
  binary,
  utf8,
  receipts,
  redelivery,
  transaction,
  heartbeat,
  large,
  reconnect,
};
