// The connection to the gateway.  After a call without an answer a banner counts down to the next attempt; the first
// answer removes it, and all pages go on.

import { call, news } from "./api.js";
import { clock } from "./format.js";

const FIRST = 1000;
const LAST = 8000; // milliseconds between two attempts, at most

const $ = (id) => document.getElementById(id);

/** "away" and "here", once for each change. */
export const line = new EventTarget();

let lost = false;
let pause = FIRST;
let due = 0;
let timer = 0;
let sentence = "";
let since = "";

/** Resolves when the gateway answers; at once when it does. */
export function whenHere() {
  return lost ? new Promise((resolve) => line.addEventListener("here", resolve, { once: true })) : Promise.resolve();
}

function lose(event) {
  sentence = event.detail;
  if (lost) return;
  lost = true;
  since = clock(Date.now() / 1000);
  pause = FIRST;
  $("banner").hidden = false;
  document.body.classList.add("away"); // what is shown is old, and looks it
  line.dispatchEvent(new Event("away"));
  plan();
}

function heal() {
  if (!lost) return;
  lost = false;
  clearTimeout(timer);
  $("banner").hidden = true;
  document.body.classList.remove("away");
  line.dispatchEvent(new Event("here"));
}

function plan() {
  due = Date.now() + pause;
  pause = Math.min(LAST, pause * 2);
  tick();
}

function tick() {
  const left = Math.ceil((due - Date.now()) / 1000);
  if (left <= 0) return attempt();
  // A screen reader hears the sentence once: the seconds are for the eye alone.
  $("banner-text").textContent = `${sentence}. All figures are from ${since}. Trying again\u00a0…`;
  $("banner-retry").textContent = `Try now (${left} s)`;
  timer = setTimeout(tick, 250);
}

async function attempt() {
  clearTimeout(timer);
  try {
    await call("GET", "me");
  } catch {
    // A refusal is an answer as well, and "here" has been told by then.
  }
  if (lost) plan();
}

news.addEventListener("away", lose);
news.addEventListener("here", heal);
$("banner-retry").addEventListener("click", attempt);
