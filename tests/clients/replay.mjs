// What a page does with @stomp/stompjs that must miss nothing, though its connection is cut again and again.
//
// A publisher of the test's numbers its messages, and goes on all the while; when the page says "stop", it sends "end".
//
//   home.ask("cut")    resets the connections that are open now
//   home.ask("stop")   the publisher comes to its end
//   home.topic         what it sends to
//
// Both run in node (node.mjs) and in Chromium (chromium.mjs).

import { Inbox, Peer, equal } from "./peer.mjs";

const CUTS = 50;
const PATIENCE = 30_000;
const END = "end";

/** How many messages come until a connection is cut: sometimes none, sometimes so many that it is live long since. */
const length = (cut) => (cut * 37) % 211;

/**
 * Read the topic to its end, over many connections.
 * @param headers () => those of the next SUBSCRIBE.
 * @param take (message, client) => what is done with a message.
 * @return the bodies that came, a list for each connection, without the last of all.
 */
async function follow(home, headers, take) {
  const connections = [];
  const finished = new Inbox("the end");
  const peer = new Peer(home, { reconnectDelay: 1 });
  let left = 0;
  const count = () => {
    if (left-- === 0) home.ask(connections.length > CUTS ? "stop" : "cut");
  };
  peer.client.onConnect = () => {
    const bodies = [];
    const id = `connection-${connections.push(bodies)}`;
    left = length(connections.length - 1);
    const inbox = (message) => {
      equal(message.headers.subscription, id, "a message of the connection that is there now");
      if (message.body === END) {
        finished.put();
        return;
      }
      bodies.push(message.body);
      take(message, peer.client);
      count();
    };
    peer.client.subscribe(home.topic, inbox, { id, ...headers() });
    count();
  };
  peer.client.activate();
  await finished.next(PATIENCE);
  equal(peer.closes.size, CUTS, "connections that were cut");
  await peer.close();
  return connections;
}

/** The page keeps the number of the last message, and asks for the next one. */
async function numbered(home) {
  let last = -1;
  return follow(
    home,
    () => ({ "from-seq": String(last + 1) }),
    (message) => {
      const number = Number(message.headers.seq);
      if (last >= 0) equal(number, last + 1, "the number of the next message");
      equal(message.headers.gap, undefined, "a gap");
      last = number;
    },
  );
}

/**
 * The page keeps nothing: it acknowledges, and the gateway knows under the page's name how far it has come.
 * @return the bodies of each connection, and of each the last one that it acknowledged, and that was confirmed.
 */
async function named(home) {
  // The test's books, not the page's.
  const ids = new Map(); // body -> message-id
  const acknowledged = [];
  const confirmed = [];
  let taken = 0;
  const headers = () => {
    acknowledged.push(null);
    confirmed.push(null);
    return { resume: home.name, ack: "client", "from-seq": "0" };
  };
  const take = (message, client) => {
    const { body } = message;
    const id = message.headers["message-id"];
    equal(ids.get(body) ?? id, id, `message-id of ${body}`);
    ids.set(body, id);
    equal(message.headers.gap, undefined, "a gap");
    if (++taken % 5) return;
    const connection = acknowledged.length - 1;
    const receipt = `${connection}-${body}`;
    client.watchForReceipt(receipt, () => (confirmed[connection] = body));
    acknowledged[connection] = body;
    message.ack({ receipt });
  };
  return { connections: await follow(home, headers, take), acknowledged, confirmed };
}

export const scenarios = { numbered, named };
