// The demo page: one STOMP client, what it is subscribed to, and what came.
//
// It knows @stomp/stompjs (vendor/stomp.umd.min.js, built into place from npm's package) and the gateway's
// /config.json; everything it shows of a frame goes through textContent, so a message can never become markup.
// The page's wishes (the subscriptions) outlive a connection: stomp.js comes back by itself, and onConnect
// subscribes again.  Whatever the server refuses is taken off that list, or each new connection would be refused too.

"use strict";

const KEEP = 200; // messages shown; older ones leave the page
const RETRY = 2000; // milliseconds between attempts, unless the server names another time

const $ = (id) => document.getElementById(id);

const subscriptions = new Map(); // destination -> { item, id, live: the library's handle while connected }
let client = null;
let numbers = 0; // of receipts and subscriptions
let received = 0;
let unconfirmed = ""; // the receipt that the last SEND waits for

function show(state, text) {
  $("state").dataset.state = state;
  $("state-text").textContent = text;
  $("connect-button").textContent = client ? "Disconnect" : "Connect";
  $("connect-button").classList.toggle("secondary", client !== null);
  for (const button of document.querySelectorAll("#subscribe button, #send button")) {
    button.disabled = state !== "connected";
  }
}

function showError(title, text) {
  $("error-title").textContent = title;
  $("error-text").textContent = text;
  $("error").hidden = false;
}

function hideError() {
  $("error").hidden = true;
}

/** Where the gateway's WebSocket is: on its own port, or, behind a proxy, where this page came from. */
async function findAddress() {
  const response = await fetch("config.json");
  if (!response.ok) throw new Error(`config.json: ${response.status} ${response.statusText}`);
  const config = await response.json();
  const scheme = config.websocket_tls || location.protocol === "https:" ? "wss:" : "ws:";
  const host = config.websocket_port ? `${location.hostname}:${config.websocket_port}` : location.host;
  return `${scheme}//${host}${config.websocket_path}`;
}

async function connect() {
  const form = new FormData($("connect"));
  hideError();
  const brokerURL = await findAddress();
  if (client) return; // a second click while the first one asked
  client = new StompJs.Client({
    brokerURL,
    connectHeaders: form.get("login") ? { login: form.get("login"), passcode: form.get("passcode") } : {},
    reconnectDelay: RETRY,
    onConnect: connected,
    onStompError: refused,
    onWebSocketClose: lost,
  });
  show("connecting", "Connecting …");
  client.activate();
}

async function disconnect() {
  const leaving = client;
  client = null;
  for (const each of subscriptions.values()) each.live = null;
  await leaving.deactivate();
  show("offline", "Not connected");
}

function connected(frame) {
  client.reconnectDelay = RETRY;
  const server = frame.headers.server ? ` to ${frame.headers.server}` : "";
  show("connected", `Connected${server}, STOMP ${client.connectedVersion}`);
  for (const [destination, each] of subscriptions) start(destination, each);
}

/** The server's ERROR: shown word for word, save a shutdown, which names the time to come back. */
function refused(frame) {
  if ("retry-after" in frame.headers) {
    client.reconnectDelay = Number(frame.headers["retry-after"]) || RETRY; // 0 would mean never
    return;
  }
  const receipt = frame.headers["receipt-id"];
  if (receipt && receipt === unconfirmed) settle("Refused");
  for (const [destination, each] of subscriptions) {
    if (each.id === receipt) drop(destination);
  }
  showError(frame.headers.message || "The server refused", frame.body);
  if (!client.connected) disconnect(); // the login was refused, and would be refused again
}

function lost() {
  if (!client) return;
  for (const each of subscriptions.values()) each.live = null;
  if (unconfirmed) settle("Not confirmed: the connection ended before the gateway answered");
  show("connecting", "Connection lost, trying again …");
}

function start(destination, each) {
  each.id = `subscription-${++numbers}`;
  each.live = client.subscribe(destination, deliver, { id: each.id, receipt: each.id });
}

function subscribe(destination) {
  hideError();
  if (subscriptions.has(destination)) return;
  const item = document.createElement("li");
  const name = document.createElement("span");
  const button = document.createElement("button");
  name.textContent = destination;
  button.type = "button";
  button.className = "plain";
  button.textContent = "×";
  button.setAttribute("aria-label", `Unsubscribe from ${destination}`);
  button.addEventListener("click", () => {
    subscriptions.get(destination).live?.unsubscribe();
    drop(destination);
    $("subscribe-destination").focus();
  });
  item.append(name, button);
  $("subscriptions").append(item);
  const each = { item, id: "", live: null };
  subscriptions.set(destination, each);
  start(destination, each);
}

function drop(destination) {
  subscriptions.get(destination).item.remove();
  subscriptions.delete(destination);
}

function send(destination, body) {
  hideError();
  const receipt = `send-${++numbers}`;
  unconfirmed = receipt;
  $("sent").textContent = "Sent …";
  client.watchForReceipt(receipt, () => settle(`Accepted at ${new Date().toLocaleTimeString()}`));
  client.publish({ destination, body, headers: { receipt, "content-type": "text/plain;charset=utf-8" } });
}

function settle(text) {
  unconfirmed = "";
  $("sent").textContent = text;
}

function deliver(message) {
  const entry = $("message-template").content.cloneNode(true);
  const now = new Date();
  entry.querySelector(".destination").textContent = message.headers.destination;
  entry.querySelector("time").textContent = now.toLocaleTimeString();
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

function readable(octets) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch {
    return `(${octets.length} octets that are not text)`;
  }
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

onSubmit("connect", () => (client ? disconnect() : connect()));
onSubmit("subscribe", () => subscribe($("subscribe-destination").value.trim()));
onSubmit("send", () => send($("send-destination").value.trim(), $("send-body").value));
$("error-dismiss").addEventListener("click", hideError);
$("clear").addEventListener("click", clear);

show("offline", "Not connected");
if (typeof StompJs === "undefined") {
  $("connect-button").disabled = true;
  showError(
    "The STOMP client is not installed",
    "The gateway runs, but static/vendor/stomp.umd.min.js is missing. Run `make static`, which takes it from npm's package @stomp/stompjs, and load this page again.",
  );
} else {
  findAddress().then(
    (address) => ($("address").textContent = address),
    (error) => showError("The gateway does not answer", error.message),
  );
}
