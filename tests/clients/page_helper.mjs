// The page helper, static/client/, where things go wrong: connections are cut, the gateway ends, refuses, or is another.
//
//   home.helper   where the module is: a file for node (node.mjs), /client.js of the gateway for Chromium (chromium.mjs)
//   home.ask      has the test do something to the gateway or the network, and returns when it is done

import { Inbox, equal } from "./peer.mjs";

const SOON = { delay: 20, maxDelay: 100 };

/** A helper with its happenings in inboxes, which are closed at the end. */
async function open(home, options = {}, configuration = {}) {
  const { GatewayClient } = await import(home.helper);
  const errors = new Inbox("errors");
  const connects = new Inbox("connects");
  const client = new home.Stomp.Client({ brokerURL: home.url, ...configuration });
  const gateway = new GatewayClient(client, { ...SOON, onError: (error) => errors.put(error), ...options });
  gateway.onConnect(() => connects.put());
  return { gateway, errors, connects };
}

async function opened(home, ...options) {
  const found = await open(home, ...options);
  found.gateway.activate();
  await found.connects.next();
  return found;
}

/** A subscription, with what comes to it in inboxes. */
function follow(gateway, destination, options = {}) {
  const inbox = new Inbox(destination);
  inbox.gaps = new Inbox(`gaps of ${destination}`);
  inbox.errors = new Inbox(`errors of ${destination}`);
  const onGap = (gap) => inbox.gaps.put(gap);
  const onError = (error) => inbox.errors.put(error);
  inbox.end = gateway.subscribe(destination, (message) => inbox.put(message), { onGap, onError, ...options });
  return inbox;
}

/** The bodies up to one. */
async function until(inbox, last) {
  const bodies = [];
  do bodies.push((await inbox.next()).body);
  while (bodies.at(-1) !== last);
  return bodies;
}

async function rejected(promise, text) {
  const error = await promise.then(
    () => null,
    (reason) => reason,
  );
  if (!error?.message.includes(text)) throw new Error(`${error?.message} instead of ${text}`);
  return error;
}

/**
 * One page over five outages: after each it is told of the gaps that there are, and of no others.
 * `home.outages`: what to ask for; during each the test sends numbers to all topics, and says when the page may be back.
 * @return of each outage: what came to each subscription, how many gaps, and milliseconds from a shutdown to its attempt
 */
async function outages(home) {
  let shutdown = null;
  let waited = null;
  const { gateway, errors, connects } = await opened(home, {}, {
    onStompError: (frame) => (shutdown = "retry-after" in frame.headers ? performance.now() : null),
    beforeConnect: () => {
      if (shutdown) waited = performance.now() - shutdown;
      shutdown = null;
    },
  });
  const inboxes = {
    stored: follow(gateway, home.topics.stored),
    memory: follow(gateway, home.topics.memory),
    plain: follow(gateway, home.topics.plain),
    named: follow(gateway, home.topics.stored, { resume: home.name }),
    pattern: follow(gateway, home.topics.pattern, { resume: `${home.name}-pattern`, from: "first" }),
  };
  await gateway.send(home.topics.clock, ""); // the subscriptions are there
  const found = {};
  for (const outage of ["none", ...home.outages]) {
    waited = null;
    await home.ask(outage);
    if (outage !== "none") await connects.next(20_000);
    await gateway.send(home.topics.clock, "");
    await home.ask("go on");
    const came = {};
    for (const [name, inbox] of Object.entries(inboxes)) {
      const gaps = [];
      const bodies = await until(inbox, `end of ${outage}`);
      while (inbox.gaps.size) gaps.push(await inbox.gaps.next());
      came[name] = { bodies, gaps: gaps.length };
    }
    found[outage] = { came, waited };
  }
  equal(errors.size, 0, "errors");
  await gateway.deactivate();
  return found;
}

/** A refused subscription, message and question are told once; all the rest goes on, without them. */
async function refusals(home) {
  const { gateway, errors, connects } = await opened(home);
  const good = follow(gateway, `/topic/${home.name}`);
  const bad = follow(gateway, "/queue/");
  const error = await bad.errors.next();
  equal(error.message, "destination without a name", "the message");
  equal(error.isFinal, false, "is final");
  await connects.next();
  const refused = rejected(gateway.send("/queue/", "x"), "destination without a name");
  const sent = gateway.send(`/topic/${home.name}`, "good");
  await refused;
  await connects.next();
  await sent;
  equal(await good.bodies(1), "good", "the body");
  await rejected(gateway.request("/queue/", "x"), "destination without a name");
  await connects.next();
  gateway.client.publish({ destination: "/queue/" });
  equal((await errors.next()).message, "destination without a name", "a frame that is not the helper's");
  await connects.next();
  await gateway.send(`/topic/${home.name}`, "at last");
  equal(await good.bodies(1), "at last", "the body");
  equal(bad.errors.size + errors.size, 0, "more errors");
  await gateway.deactivate();
}

/** What is sent arrives once, in order, over cuts at every place; the test consumes it. */
async function sends(home) {
  const { gateway } = await open(home);
  const first = gateway.send(`/queue/${home.name}`, "0"); // before there is a connection
  gateway.activate();
  await first;
  const all = [];
  for (let number = 1; number <= 60; number++) {
    all.push(gateway.send(`/queue/${home.name}`, new TextEncoder().encode(`${number}`)));
    if (number % 20 === 10) await home.ask("cut");
    if (number % 20 === 0) await home.ask("lose"); // RECEIPTs do not arrive
  }
  await Promise.all(all);
  let error = null;
  try {
    gateway.send(`/queue/${home.name}`, { not: "a body" });
  } catch (reason) {
    error = reason;
  }
  equal(error?.message, "a body is a string or a Uint8Array", "what is no body");
  await gateway.deactivate();
}

async function requests(home) {
  const { gateway, connects } = await open(home);
  const questions = `/queue/${home.name}`;
  gateway.subscribe(questions, ({ headers, body }) => {
    const destination = headers["reply-to"];
    const answer = { destination, body: `${body ** 2}`, headers: { "correlation-id": headers["correlation-id"] } };
    if (body) gateway.client.publish(answer);
  });
  const answers = Promise.all(["3", "4"].map((body) => gateway.request(questions, body))); // asked on CONNECTED
  gateway.activate();
  equal((await answers).map((each) => each.body).join(), "9,16", "answers");
  const late = await rejected(gateway.request(questions, "", { timeout: 100 }), "in 100 ms");
  equal(late.message.startsWith(`no answer from ${questions}`), true, late.message);
  const mandatory = { headers: { mandatory: "true" } };
  const missing = await rejected(gateway.request("/queue/nowhere", "", mandatory), "no consumer");
  equal(missing.message, "/queue/nowhere has no consumer", "what the gateway says");
  await connects.next();
  const lost = rejected(gateway.request(questions, ""), "the connection was lost before the answer came");
  await gateway.send("/queue/clock", "");
  await home.ask("cut");
  await lost;
  equal((await gateway.request(questions, "5")).body, "25", "the next answer");
  const last = rejected(gateway.request(questions, ""), "the connection was lost");
  await gateway.deactivate();
  await last;
}

/** Each connection and each renewal has a token of its own. */
async function renewals(home) {
  const given = [];
  let failing = 1;
  const token = async () => {
    if (failing-- > 0) throw new Error("no token yet");
    given.push(home.tokens[given.length]);
    return given.at(-1);
  };
  const { gateway, errors, connects } = await opened(home, { token });
  equal((await errors.next()).message, "no token yet", "the first error");
  const inbox = follow(gateway, "/queue/clock", { headers: { "prefetch-count": "1" } });
  await gateway.send("/queue/clock", "", { "x-delay": `${home.milliseconds}` }); // longer than a token lasts
  await inbox.next(20_000);
  equal(connects.size, 0, "connections while the session was renewed");
  const renewed = given.length;
  await home.ask("cut");
  await connects.next();
  equal(errors.size, 0, "more errors");
  await gateway.deactivate();
  return [renewed, given.length];
}

/** No more attempts after a refused login, until it is tried with another passcode. */
async function login(home) {
  const { fetchTicket } = await import(home.helper);
  let passcode = "wrong";
  let attempts = 0;
  const beforeConnect = () => void attempts++;
  const { gateway, errors, connects } = await open(home, { token: () => passcode }, { beforeConnect });
  gateway.client.connectHeaders = { login: home.login };
  gateway.activate();
  const error = await errors.next();
  equal(`${error.message} ${error.isFinal}`, "login refused true", "the error");
  equal(gateway.client.active, false, "active");
  equal(attempts, 1, "attempts");
  passcode = home.passcode;
  gateway.activate();
  await connects.next();
  await gateway.deactivate();
  const headers = { Authorization: `Basic ${btoa(`${home.login}:${home.passcode}`)}` };
  passcode = await fetchTicket(home.tickets, { headers });
  gateway.activate();
  await connects.next();
  await gateway.deactivate();
  await rejected(fetchTicket(home.tickets, {}), "no ticket: 401");
}

/** Several onConnects, their ends, and an error in one of them, which keeps nothing from the others. */
async function actions(home) {
  const thrown = new Inbox("errors of the page");
  const take = (error) => thrown.put(error);
  if (globalThis.process) process.once("unhandledRejection", take);
  else addEventListener("unhandledrejection", (event) => (event.preventDefault(), take(event.reason)));
  const { gateway, connects } = await open(home);
  const ended = new Inbox("ends");
  let count = 0;
  gateway.onConnect(() => {
    throw new Error("the page's own");
  });
  const leave = gateway.onConnect(() => {
    count += 1;
    return () => ended.put();
  });
  gateway.activate();
  await connects.next();
  equal((await thrown.next()).message, "the page's own", "the error");
  gateway.onConnect(() => () => ended.put());
  await home.ask("cut");
  await ended.next();
  await ended.next();
  if (globalThis.process) process.once("unhandledRejection", take);
  await connects.next();
  await thrown.next();
  leave();
  await gateway.deactivate();
  equal(count, 2, "calls");
}

/** A topic whose policy is gone: the place in its stream is worth nothing, the subscription goes on. */
async function forgotten(home) {
  const { gateway, errors, connects } = await opened(home);
  const inbox = follow(gateway, home.topic);
  const old = follow(gateway, home.topic, { from: "first" });
  await gateway.send(home.topic, "numbered");
  equal(`${await inbox.bodies(1)},${await old.bodies(1)}`, "numbered,numbered", "bodies");
  await home.ask("restart");
  await inbox.gaps.next();
  equal((await old.errors.next()).message, "the topic keeps no stream", "of one that asked for the first");
  while (connects.size) await connects.next();
  await gateway.send(home.topic, "not numbered");
  equal(await inbox.bodies(1), "not numbered", "the body");
  equal(errors.size + inbox.errors.size, 0, "errors");
  await gateway.deactivate();
}

/** Callbacks of a named resume: one after the other, and a message counts once its callback has ended. */
async function resumed(home) {
  const { gateway } = await opened(home);
  await gateway.send(home.topic, "0");
  const began = new Inbox("callbacks that began");
  const ends = new Inbox("callbacks that may end");
  const slow = async (message) => {
    began.put(message);
    await ends.next();
  };
  const options = { resume: home.name, from: "first" };
  const end = gateway.subscribe(home.topic, slow, options);
  await gateway.send(home.topic, "1");
  equal(await began.bodies(1), "0", "the first");
  await gateway.send(home.topic, "2");
  equal(began.size, 0, "callbacks while the first one works");
  ends.put();
  equal(await began.bodies(1), "1", "the second");
  end(); // the third one has arrived, too
  ends.put();
  const again = follow(gateway, home.topic, options);
  equal(await again.bodies(2), "1,2", "what was not acknowledged");
  equal(began.size, 0, "callbacks behind the end");
  again.end({ resume: home.name });
  equal(await follow(gateway, home.topic, options).bodies(3), "0,1,2", "behind the end of the name");
  await gateway.deactivate();
}

/** What the module computes by itself. */
async function pauses(home) {
  const { backoff } = await import(home.helper);
  const longest = [0, 1, 2, 3, 4, 5, 60].map((failures) => backoff(failures, {}, () => 1));
  equal(longest.join(), "1000,2000,4000,8000,16000,30000,30000", "the longest pauses");
  equal(backoff(60, {}, () => 0), 0, "the shortest pause");
  equal(backoff(1, { delay: 10, maxDelay: 15, retryAfter: 2_000 }, () => 0.5), 2_007.5, "behind retry-after");
  const different = new Set(Array.from({ length: 10 }, () => backoff(5)));
  equal(different.size, 10, "pauses that differ");
}

export const scenarios = { outages, refusals, sends, requests, renewals, login, actions, forgotten, resumed, pauses };
