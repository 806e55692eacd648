// The console: its pages, its navigation, and the head that says how the gateway is.

import { get, news, Refused } from "./api.js";
import { show as showDrain } from "./drain.js";
import { many } from "./format.js";
import { html, nothing, render } from "./html.js";
import { line } from "./line.js";
import * as live from "./live.js";
import { enter, refresh } from "./login.js";
import { show as showMemory } from "./memory.js";
import { isWrong, present } from "./problems.js";
import { again, link, start } from "./router.js";
import { announce } from "./say.js";
import { inPlaceOf, isStandby, show as showStandby } from "./standby.js";
import { cluster } from "./pages/cluster.js";
import { destination } from "./pages/destination.js";
import { destinations } from "./pages/destinations.js";
import { offsets, retained, scheduled } from "./pages/stored.js";
import { maintenance } from "./pages/maintenance.js";
import { nowhere } from "./pages/nowhere.js";
import { overview } from "./pages/overview.js";
import { pipeline } from "./pages/pipeline.js";
import { playground } from "./pages/playground.js";
import { session } from "./pages/session.js";
import { sessions } from "./pages/sessions.js";
import { settings } from "./pages/settings.js";
import { subscriptions } from "./pages/subscriptions.js";

const $ = (id) => document.getElementById(id);

// `cursors` is the name of the page of offsets in addresses that users keep.
// Of the primary: they show messages and clients, and a standby has none.
const LIVE = { overview, destinations, destination, scheduled, retained, cursors: offsets, sessions, session, subscriptions };
Object.assign(LIVE, { playground });
const PAGES = { cluster, pipeline, settings, maintenance, nowhere };
for (const [name, page] of Object.entries(LIVE)) {
  const mount = (root, query) => (isStandby() ? inPlaceOf(page.title, root) : page.mount(root, query));
  PAGES[name] = { title: page.title, mount };
}
const MENU = ["overview", "destinations", "sessions", "subscriptions", "playground", "pipeline", "cluster", "settings"];
MENU.push("maintenance");
const BELONGS = {
  destination: "destinations",
  scheduled: "destinations",
  retained: "destinations",
  cursors: "destinations",
  session: "sessions",
};

let begun = false;
let hidden = new Set(["pipeline", "cluster"]); // of the menu, until it is known that they are set up
let here = "";
let wasStandby = false;

function navigation(name) {
  here = name;
  const current = BELONGS[name] ?? name;
  const item = (each) =>
    html`<li>
      <a href=${link(each)} aria-current=${each === current ? "page" : "false"}>${PAGES[each].title}</a>
    </li>`;
  render(
    html`<ul>
      ${MENU.filter((each) => !hidden.has(each)).map(item)}
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
  const wrong = present(answer).filter(isWrong).length;
  if (answer.standby) state(wrong ? "wait" : "good", wrong ? `Standby, ${many(wrong, "problem")}` : "Standby");
  else if (!answer.ready) state("bad", "Not ready");
  else {
    const complains = Object.keys(answer.complaints ?? {}).length > 0;
    if (wrong) state("wait", `Ready, ${many(wrong, "problem")}`);
    else if (complains) state("wait", "Ready, with problems");
    else state("good", "Ready");
  }
}

/** Pipeline and cluster are for gateways that have one. */
async function findParts() {
  const [{ configured }, { cluster: name }] = await Promise.all([get("pipeline"), get("cluster")]);
  hidden = new Set([...(configured ? [] : ["pipeline"]), ...(name ? [] : ["cluster"])]);
  navigation(here);
}

/** A standby has become primary, or the other way round: the page that is shown is another one. */
function turned() {
  if (isStandby() === wasStandby) return;
  wasStandby = isStandby();
  again();
}

function begin() {
  live.begin();
  if (begun) return again();
  begun = true;
  live.follow(told);
  live.follow(showDrain);
  live.follow(showMemory);
  live.follow(showStandby);
  live.follow(turned);
  findParts().catch(() => {}); // they stay hidden
  return start(PAGES, shown);
}

$("menu").addEventListener("click", () => menu($("menu").getAttribute("aria-expanded") !== "true"));
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the page
  $("main").focus();
});
news.addEventListener("login", () => state("wait", "Not logged in"));
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
  const refused = error instanceof Refused;
  const title = refused ? "This client may not use the console" : "Waiting for the gateway";
  state("bad", title);
  render(
    html`<div class="dead">
      <h1>${title}</h1>
      ${refused ? html`<p>${error.message}</p>` : nothing}
    </div>`,
    $("main"),
  );
}
