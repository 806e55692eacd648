// @stomp/rx-stomp as its documentation has it: RxStompRPC without any configuration of its own, in node.

import { RxStomp, RxStompRPC, RxStompState } from "@stomp/rx-stomp";
import { filter, firstValueFrom, take, timeout, toArray } from "rxjs";

import { Inbox, equal } from "./peer.mjs";

const PATIENCE = 8_000;

function open(home) {
  const rxStomp = new RxStomp();
  rxStomp.configure({ brokerURL: home.url, heartbeatIncoming: 0, heartbeatOutgoing: 0, reconnectDelay: 100 });
  rxStomp.activate();
  return { rxStomp, rpc: new RxStompRPC(rxStomp) };
}

function call(rpc, destination, body) {
  return firstValueFrom(rpc.rpc({ destination, body }).pipe(timeout(PATIENCE))).then((reply) => reply.body);
}

/** A server in rx-stomp too, as its guide writes it: answers `count` times the body. */
function serve(rxStomp, destination) {
  return rxStomp.watch(destination).subscribe((request) => {
    const { "reply-to": replyTo, "correlation-id": id, count = "1" } = request.headers;
    for (let n = 1; n <= Number(count); n++) {
      rxStomp.publish({ destination: replyTo, body: `${request.body}${n}`, headers: { "correlation-id": id } });
    }
  });
}

/** Many calls at a time, from two clients whose reply queues have one name. */
async function rpc(home) {
  const queue = `/queue/${home.name}`;
  const [server, a, b] = [open(home), open(home), open(home)];
  serve(server.rxStomp, queue);
  const calls = [];
  for (let n = 0; n < 20; n++) {
    for (const [name, client] of Object.entries({ a, b })) {
      calls.push([`${name}${n}-1`, call(client.rpc, queue, `${name}${n}-`)]);
    }
  }
  for (const [expected, answer] of calls) equal(await answer, expected, "answer");

  const strays = new Inbox("replies of others");
  for (const client of [a, b]) client.rxStomp.unhandledMessage$.subscribe((message) => strays.put(message));
  equal(await call(a.rpc, queue, "a"), "a1", "a's answer");
  equal((await strays.next()).body, "a1", "the one reply that came to anybody");
  equal(strays.size, 0, "other replies");
  for (const each of [server, a, b]) await each.rxStomp.deactivate();
}

/** One request, many replies. */
async function streaming(home) {
  const queue = `/queue/${home.name}`;
  const [server, client] = [open(home), open(home)];
  serve(server.rxStomp, queue);
  const params = { destination: queue, body: "part ", headers: { count: "5" } };
  const replies = client.rpc.stream(params).pipe(take(5), timeout(PATIENCE), toArray());
  const bodies = (await firstValueFrom(replies)).map((reply) => reply.body);
  equal(bodies.join(), "part 1,part 2,part 3,part 4,part 5", "the stream");
  for (const each of [server, client]) await each.rxStomp.deactivate();
}

/** The connection is cut: a call after it has a reply queue again. */
async function cut(home) {
  const queue = `/queue/${home.name}`;
  const client = open(home);
  equal(await call(client.rpc, queue, "before"), "BEFORE", "answer");
  const closed = firstValueFrom(client.rxStomp.connectionState$.pipe(filter((state) => state === RxStompState.CLOSED)));
  await home.ask("cut");
  await closed;
  equal(await call(client.rpc, queue, "after"), "AFTER", "answer after the cut");
  await client.rxStomp.deactivate();
}

/** The server is elsewhere, in another language. */
async function client(home) {
  const { rxStomp, rpc } = open(home);
  const answers = await Promise.all(["a", "b", "c"].map((body) => call(rpc, `/queue/${home.name}`, body)));
  equal(answers.join(), "A,B,C", "answers");
  await rxStomp.deactivate();
}

export const scenarios = { rpc, streaming, cut, client };
