// Programs as users of ActiveMQ write them with @stomp/stompjs: the headers of ActiveMQ's STOMP page, unedited.

import { Peer, equal } from "./peer.mjs";

/** activemq.prefetchSize in messages, activemq.priority, activemq.exclusive. */
async function workers(home) {
  const queue = `/queue/${home.name}`;
  const [a, b] = [await Peer.open(home), await Peer.open(home)];
  const low = await a.subscribe(queue, { ack: "client", "activemq.prefetchSize": "1", "activemq.priority": "0" });
  const high = await b.subscribe(queue, { ack: "client", "activemq.prefetchSize": "1", "activemq.priority": "10" });
  for (const body of ["1", "2", "3"]) await a.send(queue, body);
  const held = await high.next();
  equal(held.body, "1", "the consumer of higher priority is first");
  equal((await low.next()).body, "2", "and the other one gets what it has no room for");
  held.ack();
  equal((await high.next()).body, "3", "after the ACK");
  equal(low.size + high.size, 0, "messages beyond activemq.prefetchSize:1");
  await b.close(); // "3" goes back, and stays there: a's window is full
  await a.close();

  const [active, standby] = [await Peer.open(home), await Peer.open(home)];
  const only = { "activemq.exclusive": "true" };
  const working = await active.subscribe(`${queue}-exclusive`, only);
  const waiting = await standby.subscribe(`${queue}-exclusive`, only);
  for (const body of ["1", "2"]) await standby.send(`${queue}-exclusive`, body);
  equal(await working.bodies(2), "1,2", "the exclusive consumer gets all");
  await active.close();
  await standby.send(`${queue}-exclusive`, "3");
  equal((await waiting.next()).body, "3", "the next one takes over");
  await standby.close();
}

/** JMS selectors on a topic and a queue; numbers compare as numbers though headers are text. */
async function selectors(home) {
  const [topic, queue] = [`/topic/${home.name}`, `/queue/${home.name}`];
  const peer = await Peer.open(home);
  const dear = await peer.subscribe(topic, { selector: "price > 9 AND symbol IN ('IBM', 'SAP')" });
  const all = await peer.subscribe(topic);
  await peer.send(topic, "cheap", { price: "8.5", symbol: "IBM" });
  await peer.send(topic, "other", { price: "100", symbol: "XYZ" });
  await peer.send(topic, "dear", { price: "10", symbol: "SAP" });
  await peer.send(topic, "unpriced", { symbol: "SAP" });
  await peer.send(topic, "last", { price: "11", symbol: "IBM" });
  equal(await dear.bodies(2), "dear,last", "what the selector takes");
  equal(await all.bodies(5), "cheap,other,dear,unpriced,last", "without selector");

  for (const kind of ["red", "blue", "red", "green"]) await peer.send(queue, kind, { kind });
  const blue = await peer.subscribe(queue, { selector: "kind = 'blue'" });
  equal((await blue.next()).body, "blue", "a message in the middle of the queue");
  const rest = await peer.subscribe(queue, { selector: "kind <> 'blue' AND kind NOT LIKE 'gr%'" });
  equal(await rest.bodies(2), "red,red", "the others");
  await peer.close();
}

/** JMSXGroupID: one consumer has a group until it leaves or the group is closed. */
async function groups(home) {
  const queue = `/queue/${home.name}`;
  const [producer, a, b] = [await Peer.open(home), await Peer.open(home), await Peer.open(home)];
  const inboxes = [await a.subscribe(queue), await b.subscribe(queue)];
  const send = (group, body, more = {}) => producer.send(queue, body, { JMSXGroupID: group, ...more });
  for (const n of [1, 2, 3]) for (const group of ["x", "y"]) await send(group, `${group}${n}`);
  const found = [await inboxes[0].bodies(3), await inboxes[1].bodies(3)].sort();
  equal(found.join(" "), "x1,x2,x3 y1,y2,y3", "each group at one consumer, in order");

  await a.close();
  for (const group of ["x", "y"]) await send(group, `${group}4`);
  equal(await inboxes[1].bodies(2), "x4,y4", "after the other consumer left");
  await send("x", "x5", { JMSXGroupSeq: "-1" });
  const message = await inboxes[1].next();
  equal(message.body, "x5", "the last one of the group");
  equal(message.headers.JMSXGroupID, "x", "JMSXGroupID");
  for (const peer of [producer, b]) await peer.close();
}

/** browser:true reads what waits and takes nothing away. */
async function browsing(home) {
  const queue = `/queue/${home.name}`;
  const peer = await Peer.open(home);
  for (const body of ["1", "2"]) await peer.send(queue, body);
  const inbox = await peer.subscribe(queue, { browser: "true" });
  equal(await inbox.bodies(2), "1,2", "what waits");
  const end = await inbox.next();
  equal(end.headers.browser, "end", "browser");
  equal(end.body, "", "body of the end");
  inbox.subscription.unsubscribe();
  equal(await (await peer.subscribe(queue)).bodies(2), "1,2", "afterwards");
  await peer.close();
}

/** AMQ_SCHEDULED_DELAY, `expires` as a moment; a schedule that cannot be honoured is an ERROR and not silence. */
async function times(home) {
  const queue = `/queue/${home.name}`;
  const peer = await Peer.open(home);
  await peer.send(queue, "expired", { expires: String(Date.now() - 1000) });
  await peer.send(queue, "expires soon", { expires: String(Date.now() + 50) });
  await peer.send(queue, "expires never", { expires: "0" });
  await peer.pass(100);
  const inbox = await peer.subscribe(queue);
  equal((await inbox.next()).body, "expires never", "after the others have expired");
  const sent = performance.now();
  peer.client.publish({ destination: queue, body: "late", headers: { AMQ_SCHEDULED_DELAY: "200" } });
  await peer.send(queue, "at once");
  equal(await inbox.bodies(2), "at once,late", "order");
  const took = performance.now() - sent;
  equal(took >= 199, true, `${took} ms for AMQ_SCHEDULED_DELAY:200, not early`);

  const often = { AMQ_SCHEDULED_DELAY: "100", AMQ_SCHEDULED_PERIOD: "100", AMQ_SCHEDULED_REPEAT: "2" };
  peer.client.publish({ destination: queue, body: "again", headers: often });
  equal(await inbox.bodies(3), "again,again,again", "a message and two repetitions");

  peer.client.publish({ destination: queue, headers: { AMQ_SCHEDULED_CRON: "61 * * * *" } });
  const refusal = await peer.errors.next();
  equal(refusal.headers.message, "bad value of AMQ_SCHEDULED_CRON", "the ERROR");
  await peer.closes.next();
}

/** ActiveMQ's wildcards, composite destinations, activemq.noLocal. */
async function names(home) {
  const [a, b] = [await Peer.open(home), await Peer.open(home)];
  const rest = await a.subscribe(`/topic/${home.name}.>`, { "activemq.noLocal": "true" });
  const one = await b.subscribe(`/topic/${home.name}.*.end`);
  await a.send(`/topic/${home.name}.my.end`, "local");
  await b.send(`/topic/${home.name}.x.end`, "from the other one");
  equal((await rest.next()).body, "from the other one", "activemq.noLocal");
  equal(await one.bodies(2), "local,from the other one", "* within a name");

  await b.send(`/queue/${home.name},/topic/${home.name}.both`, "to both");
  equal((await rest.next()).body, "to both", "the topic's copy");
  const copy = await (await b.subscribe(`/queue/${home.name}`)).next();
  equal(copy.body, "to both", "the queue's copy");
  equal(copy.headers.destination, `/queue/${home.name}`, "destination of a copy");
  for (const peer of [a, b]) await peer.close();
}

/** ActiveMQ.Retain: who comes later gets the last value of each topic that its pattern matches. */
async function retained(home) {
  const publisher = await Peer.open(home);
  for (const [city, body] of [["oslo", "4"], ["rome", "19"], ["oslo", "5"]]) {
    await publisher.send(`/topic/${home.name}.${city}`, body, { "ActiveMQ.Retain": "true" });
  }
  await publisher.send(`/topic/${home.name}.oslo`, "passing by");
  const page = await Peer.open(home);
  const inbox = await page.subscribe(`/topic/${home.name}.>`);
  const [first, second] = [await inbox.next(), await inbox.next()];
  equal([first, second].map((message) => message.body).sort().join(), "19,5", "the last values");
  equal(first.headers.retained, "true", "retained");
  equal(first.headers["ActiveMQ.Retain"], undefined, "the header that asked for it");
  await publisher.send(`/topic/${home.name}.rome`, "20", { "ActiveMQ.Retain": "true" });
  const live = await inbox.next();
  equal(live.body, "20", "and what comes");
  equal(live.headers.retained, undefined, "retained, of a live message");
  for (const peer of [publisher, page]) await peer.close();
}

export const scenarios = { workers, selectors, groups, browsing, times, names, retained };
