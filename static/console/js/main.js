// The console: its pages, its navigation, and the head that says how the gateway is.

import { news, Refused } from "./api.js";
import { show } from "./drain.js";
import { html, render } from "./html.js";
import { line } from "./line.js";
import * as live from "./live.js";
import { enter, refresh } from "./login.js";
import { again, link, start } from "./router.js";
import { announce } from "./say.js";
import { destination } from "./pages/destination.js";
import { destinations } from "./pages/destinations.js";
import { offsets, retained, scheduled } from "./pages/stored.js";
import { overview } from "./pages/overview.js";
import { pipeline } from "./pages/pipeline.js";
import { playground } from "./pages/playground.js";
import { session } from "./pages/session.js";
import { sessions } from "./pages/sessions.js";
import { settings } from "./pages/settings.js";
import { subscriptions } from "./pages/subscriptions.js";

const $ = (id) => document.getElementById(id);

// `cursors` is the name of the page of offsets in addresses that users keep.
const PAGES = { overview, destinations, destination, scheduled, retained, cursors: offsets, sessions, session, subscriptions };
Object.assign(PAGES, { playground, pipeline, settings });
const MENU = ["overview", "destinations", "sessions", "subscriptions", "playground", "pipeline", "settings"];
const BELONGS = {
  destination: "destinations",
  scheduled: "destinations",
  retained: "destinations",
  cursors: "destinations",
  session: "sessions",
};

let begun = false;

function navigation(name) {
  const current = BELONGS[name] ?? name;
  const item = (each) =>
    html`<li>
      <a href=${link(each)} aria-current=${each === current ? "page" : "false"}>${PAGES[each].title}</a>
    </li>`;
  render(
    html`<ul>
      ${MENU.map(item)}
    </ul>`,
    $("navigation"),
  );
}

function menu(open) {
  $("navigation").classList.toggle("open", open);
  $("menu").setAttribute("aria-expanded", String(open));
}

function shown(name, title) {
  navigation(name);
  menu(false);
  document.title = `${title} · stomp-gateway console`;
}

function state(kind, text) {
  if ($("state-text").textContent === text) return; // or a screen reader would say it every second
  $("state").dataset.state = kind;
  $("state-text").textContent = text;
}

function told() {
  const { answer } = live.now();
  if (!answer) return;
  if (!answer.ready) state("bad", "Not ready");
  else if (Object.keys(answer.complaints ?? {}).length) state("wait", "Ready, with problems");
  else state("good", "Ready");
}

function begin() {
  live.begin();
  if (begun) return again();
  begun = true;
  live.follow(told);
  live.follow(show);
  return start(PAGES, shown);
}

$("menu").addEventListener("click", () => menu($("menu").getAttribute("aria-expanded") !== "true"));
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the page
  $("main").focus();
});
news.addEventListener("login", () => state("wait", "Not logged in"));
line.addEventListener("away", () => state("bad", "Connection lost"));
line.addEventListener("here", async () => {
  await refresh();
  announce("The gateway answers again");
  if (begun) told();
  else await enter(begin);
});

navigation("");
try {
  await enter(begin);
} catch (error) {
  // The banner says it of a gateway that is away, and goes on trying.
  const title = error instanceof Refused ? "This client may not use the console" : "Waiting for the gateway";
  state("bad", title);
  render(
    html`<div class="dead">
      <h1>${title}</h1>
      <p>${error.message}</p>
    </div>`,
    $("main"),
  );
}
