// Programs as users of RabbitMQ write them with @stomp/stompjs: the headers of RabbitMQ's STOMP plugin, unedited.

import { Peer, equal } from "./peer.mjs";

/** Three workers' queue: one message at a time each, back by NACK, and dead letters by the queue's arguments. */
async function workers(home) {
  const queue = `/queue/${home.name}`;
  const fair = {
    ack: "client-individual",
    "prefetch-count": "1",
    durable: "false",
    "auto-delete": "false",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": `failed.${home.name}`,
  };
  const [producer, a, b] = [await Peer.open(home), await Peer.open(home), await Peer.open(home)];
  const first = await a.subscribe(queue, fair);
  const second = await b.subscribe(queue, fair);
  for (const body of ["1", "2", "3", "4"]) await producer.send(queue, body, { persistent: "true" });

  const held = await first.next();
  equal(held.body, "1", "the first worker's message");
  equal(held.headers.persistent, "true", "persistent");
  for (const body of ["2", "3", "4"]) {
    const message = await second.next();
    equal(message.body, body, "what the free worker gets while the other one is busy");
    message.ack();
  }
  equal(first.size, 0, "messages beyond prefetch-count:1");

  held.nack(); // RabbitMQ's default: back into the queue
  const again = await second.next();
  equal(again.body, "1", "the requeued message");
  equal(again.headers.redelivered, "true", "redelivered");
  again.nack({ requeue: "false" });
  const dead = await (await producer.subscribe(`/queue/failed.${home.name}`)).next();
  equal(dead.body, "1", "the dead letter");
  equal(dead.headers["dlq-reason"], "rejected", "dlq-reason");
  equal(dead.headers["dlq-source"], queue, "dlq-source");
  for (const peer of [producer, a, b]) await peer.close();
}

/** Request and reply without a SUBSCRIBE: `reply-to` of a temporary queue brings the answers. */
async function rpc(home) {
  const queue = `/queue/${home.name}`;
  const server = await Peer.open(home);
  server.client.subscribe(
    queue,
    (request) => {
      const { "reply-to": destination, "correlation-id": id } = request.headers;
      server.client.publish({ destination, body: request.body.toUpperCase(), headers: { "correlation-id": id } });
      request.ack();
    },
    { ack: "client", "prefetch-count": "1" },
  );
  const clients = [await Peer.open(home), await Peer.open(home)];
  for (const round of ["first", "second"]) {
    for (const [i, client] of clients.entries()) {
      const headers = { "reply-to": "/temp-queue/answers", "correlation-id": `${round}-${i}` };
      client.client.publish({ destination: queue, body: `${round} of ${i}`, headers });
    }
    for (const [i, client] of clients.entries()) {
      const reply = await client.unhandled.next();
      equal(reply.body, `${round.toUpperCase()} OF ${i}`, "the client's own answer");
      equal(reply.headers["correlation-id"], `${round}-${i}`, "correlation-id");
      equal(reply.headers.subscription, "/temp-queue/answers", "subscription of the reply");
    }
  }
  for (const client of clients) {
    await client.close();
    equal(client.unhandled.size, 0, "answers for somebody else");
  }
  await server.close();
}

/** /topic with RabbitMQ's wildcards, the exchange amq.topic, and queues by their names at the broker. */
async function names(home) {
  const peer = await Peer.open(home);
  const one = await peer.subscribe(`/exchange/amq.topic/${home.name}.*`);
  const rest = await peer.subscribe(`/topic/${home.name}.#`);
  await peer.send(`/topic/${home.name}.a`, "a");
  await peer.send(`/topic/${home.name}.a.b`, "a.b");
  await peer.send(`/exchange/amq.topic/${home.name}.c`, "c");
  await peer.send(`/topic/${home.name}`, "itself");
  equal(await rest.bodies(4), "a,a.b,c,itself", "# is any number of words");
  equal(await one.bodies(2), "a,c", "* is one word");

  const direct = await peer.subscribe(`/exchange/amq.direct/${home.name}.key`);
  await peer.send(`/topic/${home.name}.key`, "to the other exchange");
  await peer.send(`/exchange/amq.direct/${home.name}.key`, "by its key");
  equal((await direct.next()).body, "by its key", "amq.direct");

  const fanout = await peer.subscribe("/exchange/amq.fanout");
  for (const key of ["", "/", `/${home.name}.key`]) await peer.send(`/exchange/amq.fanout${key}`, `fanout${key}`);
  equal(await fanout.bodies(3), `fanout,fanout/,fanout/${home.name}.key`, "amq.fanout, whatever the key");

  await peer.send(`/amq/queue/${home.name}`, "by the broker's name");
  const queue = await peer.subscribe(`/queue/${home.name}`);
  equal((await queue.next()).body, "by the broker's name", "/amq/queue/NAME is /queue/NAME");
  await peer.close();
}

/** A message's own time, and the queue's; a delayed message comes late, and never early. */
async function times(home) {
  const [brief, queue] = [`/queue/${home.name}-brief`, `/queue/${home.name}`];
  const peer = await Peer.open(home);
  await peer.send(brief, "too old by the queue", { "x-message-ttl": "50" });
  await peer.send(queue, "too old by itself", { expiration: "50" });
  await peer.send(queue, "lives longer", { expiration: "60000" });
  await peer.pass(100);
  await peer.send(brief, "in time");
  equal((await (await peer.subscribe(brief)).next()).body, "in time", "x-message-ttl");
  const inbox = await peer.subscribe(queue);
  equal((await inbox.next()).body, "lives longer", "expiration");

  const sent = performance.now();
  peer.client.publish({ destination: queue, body: "late", headers: { "x-delay": "200" } });
  await peer.send(queue, "at once");
  equal(await inbox.bodies(2), "at once,late", "order");
  const took = performance.now() - sent;
  equal(took >= 199, true, `${took} ms for x-delay:200, not early`);
  await peer.close();
}

/** Retrying later: what expires in a queue without consumers goes back to the working queue by its dead letters. */
async function expired(home) {
  const [queue, waiting] = [`/queue/${home.name}`, `/queue/${home.name}.wait`];
  const peer = await Peer.open(home);
  const inbox = await peer.subscribe(queue);
  await peer.send(waiting, "again", {
    "x-message-ttl": "100",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": home.name,
  });
  const message = await inbox.next();
  equal(message.body, "again", "the expired message");
  equal(message.headers["dlq-reason"], "expired", "dlq-reason");
  await peer.close();
}

export const scenarios = { workers, rpc, names, times, expired };
