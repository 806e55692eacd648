// Programs as users of Spring's simple broker write them with @stomp/stompjs: user destinations, patterns of paths.
//
// home.users has [login, passcode] of two users.

import { Peer, equal } from "./peer.mjs";

function as([login, passcode]) {
  return { connectHeaders: { login, passcode } };
}

/** convertAndSendToUser from a browser: every session of that user, and nobody else. */
async function users(home) {
  const [ada, bob] = home.users;
  const bobs = [await Peer.open(home, as(bob)), await Peer.open(home, as(bob))];
  const adas = await Peer.open(home, as(ada));
  const inboxes = [];
  for (const peer of bobs) inboxes.push(await peer.subscribe(`/user/queue/${home.name}`));
  const own = await adas.subscribe(`/user/queue/${home.name}`);

  const to = (login) => `/user/${login}/queue/${home.name}`;
  await adas.send(to(bob[0]), "for bob");
  for (const inbox of inboxes) {
    const message = await inbox.next();
    equal(message.body, "for bob", "each session of the user");
    equal(message.headers.subscription, inbox.subscription.id, "subscription");
  }
  await bobs[0].send(to(ada[0]), "for ada");
  await adas.send(`/user/*/queue/${home.name}`, "for a user called *");
  await bobs[1].send(to(ada[0]), "for ada again");
  equal(await own.bodies(2), "for ada,for ada again", "nothing that is bob's");

  inboxes[0].subscription.unsubscribe();
  await bobs[0].send(to(bob[0]), "one session is left");
  equal((await inboxes[1].next()).body, "one session is left", "to the session that stays");
  for (const peer of [...bobs, adas]) await peer.close();
  equal(inboxes[0].size, 0, "after UNSUBSCRIBE");
}

/** CONNECTED says who the session is. */
async function identity(home) {
  for (const user of home.users) {
    const peer = new Peer(home, as(user));
    peer.client.activate();
    equal((await peer.connects.next()).headers["user-name"], user[0], "user-name");
    await peer.close();
  }
}

/** Ant's patterns: ** is the rest of the path, * one step of it. */
async function paths(home) {
  const peer = await Peer.open(home, as(home.users[0]));
  const rest = await peer.subscribe(`/topic/${home.name}/**`);
  const one = await peer.subscribe(`/topic/${home.name}/*/price`);
  await peer.send(`/topic/${home.name}/ibm/price`, "1");
  await peer.send(`/topic/${home.name}/ibm/price/euro`, "2");
  await peer.send(`/topic/${home.name}/sap/price`, "3");
  equal(await rest.bodies(3), "1,2,3", "**");
  equal(await one.bodies(2), "1,3", "*");
  await peer.close();
}

export const scenarios = { users, identity, paths };
