// The demo page: it connects at once and takes part in the market of its tabs (market.js); below that, what a person
// does to the same STOMP client (talk.js).  It asks for a login only if the gateway refuses it without one.
//
// Everything of a frame goes through textContent, so a message can never become markup.

import { Market, NAME, RECEIPT, TOPIC } from "./market.js";
import { BROWSE, clock, findAddress, isInstalled, isQueue, readable, Talk } from "./talk.js";

const HELLO = "/topic/hello"; // what one tab sends there, all show
const KEEP = 200; // messages shown; older ones leave the page

const $ = (id) => document.getElementById(id);

const items = new Map(); // destination -> its item in the list of subscriptions
const browsed = new Map(); // destination -> how many of its messages this page has got
let received = 0;
let mayPublish = true; // false: a rule keeps this client from the market

const talk = new Talk({
  state: show,
  error: refuse,
  message: deliver,
  dropped: takeOff,
  settled: (text) => ($("sent").textContent = text),
});

const market = new Market(
  { list: $("senders"), template: $("sender-template") },
  (body, headers) => talk.publish(TOPIC, body, headers),
  {
    counted: (senders) => ($("tabs").textContent = company(senders)),
    returned: (milliseconds) => ($("trip").textContent = `there and back in ${milliseconds.toFixed(1)} ms`),
  },
);

function company(senders) {
  const others = senders.filter((each) => each !== NAME);
  if (!senders.length) return "Waiting for prices …";
  if (!others.length) return "No other tab is open.";
  return others.length === 1 ? `${others[0]} is here, too.` : `${others.length} others are here, too.`;
}

function show(state, text) {
  $("state").dataset.state = state;
  $("state-text").textContent = text;
  $("connection").hidden = talk.isOn;
  $("disconnect").hidden = !talk.isOn;
  for (const button of document.querySelectorAll("#subscribe button, #send button")) {
    button.disabled = state !== "connected";
  }
  if (state === "connected" && mayPublish) market.open();
  else market.close();
  if (talk.isOn) return;
  $("tabs").textContent = "Not connected: no prices come.";
  $("trip").textContent = "";
}

function forbid() {
  mayPublish = false;
  $("tabs").textContent = `The rules of this gateway forbid ${TOPIC} to this page.`;
}

/** An ERROR of the gateway.  That a stranger is refused at first is no error of the person at the page. */
function refuse(title, text, receipt) {
  if (receipt === RECEIPT) forbid();
  if (title === "login refused" && !new FormData($("connect")).get("login")) {
    $("asks").textContent = "This gateway asks for a login.";
  } else showError(title, text);
}

function showError(title, text) {
  $("error-title").textContent = title;
  $("error-text").textContent = text;
  $("error").hidden = false;
}

function hideError() {
  $("error").hidden = true;
}

async function connect() {
  mayPublish = true; // the rules may allow another login what they forbid to this one
  const form = new FormData($("connect"));
  hideError();
  $("asks").textContent = "";
  talk.connect(await findAddress("config.json"), form.get("login"), form.get("passcode"));
}

async function disconnect() {
  if (talk.isConnected) market.leave();
  await talk.disconnect();
  $("connect-button").focus();
}

function subscribe(destination) {
  hideError();
  // A plain subscription would take the messages of a queue away from the workers that they are for.
  const browses = isQueue(destination);
  if (!talk.subscribe(destination, browses ? BROWSE : {}, browses)) return;
  if (browses) {
    browsed.set(destination, 0);
    $("browsing").textContent = `This page browses ${destination}: its messages stay there.`;
  }
  const item = document.createElement("li");
  const name = document.createElement("span");
  const button = document.createElement("button");
  name.textContent = destination;
  button.type = "button";
  button.className = "plain";
  button.textContent = "×";
  button.setAttribute("aria-label", `Unsubscribe from ${destination}`);
  button.addEventListener("click", () => {
    talk.unsubscribe(destination);
    takeOff(destination);
    $("subscribe-destination").focus();
  });
  item.append(name, button);
  $("subscriptions").append(item);
  items.set(destination, item);
}

function takeOff(destination) {
  if (destination === TOPIC) forbid();
  items.get(destination)?.remove();
  items.delete(destination);
  if (browsed.delete(destination)) $("browsing").textContent = "";
}

/** A long queue is left before its end. */
function browse(destination) {
  const number = browsed.get(destination) + 1;
  browsed.set(destination, number);
  if (number < KEEP) return;
  talk.unsubscribe(destination);
  takeOff(destination);
  $("browsing").textContent = `These are the first ${KEEP} messages of ${destination}; the console shows all.`;
}

function send(destination, body) {
  hideError();
  talk.send(destination, body);
}

function deliver(message, destination) {
  if (message.headers.destination === TOPIC) return market.take(message);
  if (browsed.has(destination)) browse(destination);
  const entry = $("message-template").content.cloneNode(true);
  const now = new Date();
  entry.querySelector(".destination").textContent = message.headers.destination;
  entry.querySelector("time").textContent = clock(now);
  entry.querySelector("time").dateTime = now.toISOString();
  entry.querySelector(".body").textContent = readable(message.binaryBody);
  const list = entry.querySelector("dl");
  for (const [name, value] of Object.entries(message.headers)) {
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    text.textContent = value;
    list.append(term, text);
  }
  $("messages").prepend(entry);
  while ($("messages").children.length > KEEP) $("messages").lastElementChild.remove();
  received += 1;
  $("count").textContent = received === 1 ? "1 received" : `${received} received`;
  $("empty").hidden = true;
}

function clear() {
  $("messages").replaceChildren();
  received = 0;
  $("count").textContent = "";
  $("empty").hidden = false;
}

function onSubmit(id, action) {
  $(id).addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await action();
    } catch (error) {
      showError("This page could not do that", error.message);
    }
  });
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("code").textContent);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("code")); // over plain HTTP from elsewhere there is no clipboard
    $("copy").textContent = "Marked: press Ctrl+C";
  }
}

async function begin() {
  try {
    const address = await findAddress("config.json");
    $("code").textContent = $("code").textContent.replace(/wss?:[^"]+/, address);
    talk.subscribe(TOPIC);
    subscribe(HELLO);
    talk.connect(address);
  } catch (error) {
    show("offline", "Not connected");
    showError("The gateway does not answer", error.message);
  }
}

onSubmit("connect", connect);
onSubmit("subscribe", () => subscribe($("subscribe-destination").value.trim()));
onSubmit("send", () => send($("send-destination").value.trim(), $("send-body").value));
$("disconnect").addEventListener("click", disconnect);
$("error-dismiss").addEventListener("click", hideError);
$("clear").addEventListener("click", clear);
$("copy").addEventListener("click", copy);
$("second").href = location.href;
addEventListener("pagehide", () => talk.isConnected && market.leave());

if (isInstalled()) begin();
else {
  showError(
    "The STOMP client is not installed",
    "The gateway runs, but static/vendor/stomp.umd.min.js is missing. Run `make static`, which takes it from npm's package @stomp/stompjs, and load this page again.",
  );
}
