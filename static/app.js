// The demo page: what a person does to one STOMP client (talk.js), and what it shows of that.
//
// Everything of a frame goes through textContent, so a message can never become markup.

import { clock, findAddress, isInstalled, readable, Talk } from "./talk.js";

const KEEP = 200; // messages shown; older ones leave the page

const $ = (id) => document.getElementById(id);

const items = new Map(); // destination -> its item in the list of subscriptions
let received = 0;

const talk = new Talk({
  state: show,
  error: showError,
  message: deliver,
  dropped: takeOff,
  settled: (text) => ($("sent").textContent = text),
});

function show(state, text) {
  $("state").dataset.state = state;
  $("state-text").textContent = text;
  $("connect-button").textContent = talk.isOn ? "Disconnect" : "Connect";
  $("connect-button").classList.toggle("secondary", talk.isOn);
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

async function connect() {
  const form = new FormData($("connect"));
  hideError();
  talk.connect(await findAddress("config.json"), form.get("login"), form.get("passcode"));
}

function subscribe(destination) {
  hideError();
  if (!talk.subscribe(destination)) return;
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
  items.get(destination).remove();
  items.delete(destination);
}

function send(destination, body) {
  hideError();
  talk.send(destination, body);
}

function deliver(message) {
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

onSubmit("connect", () => (talk.isOn ? talk.disconnect() : connect()));
onSubmit("subscribe", () => subscribe($("subscribe-destination").value.trim()));
onSubmit("send", () => send($("send-destination").value.trim(), $("send-body").value));
$("error-dismiss").addEventListener("click", hideError);
$("clear").addEventListener("click", clear);

show("offline", "Not connected");
if (isInstalled()) {
  findAddress("config.json").then(
    (address) => ($("address").textContent = address),
    (error) => showError("The gateway does not answer", error.message),
  );
} else {
  $("connect-button").disabled = true;
  showError(
    "The STOMP client is not installed",
    "The gateway runs, but static/vendor/stomp.umd.min.js is missing. Run `make static`, which takes it from npm's package @stomp/stompjs, and load this page again.",
  );
}
