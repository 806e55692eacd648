// Which page is shown: `#/destinations?q=orders&sort=-waiting`.  What a table shows is in the address, so that it can
// be bookmarked, sent to a colleague, and left by Back.  A change of the query alone goes to the page that is there.

import { dismiss } from "./ask.js";

const START = "overview";
const NOWHERE = "nowhere"; // the page that says that there is none of that name

let pages = {};
let shown = null; // { name, page }
let changed = () => {};

/** The page's name and query in the address. */
export function place() {
  const [name, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { name: name || START, query: new URLSearchParams(query) };
}

/** An address for `href`. */
export function link(name, query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== null));
  return `#/${name}${search.size ? `?${search}` : ""}`;
}

/** Go there; `replace`: what a person typed letter by letter is one step for Back. */
export function go(name, query, replace = false) {
  const target = link(name, query);
  if (target === location.hash) return;
  if (!replace) {
    location.hash = target;
    return;
  }
  history.replaceState(null, "", target);
  show();
}

/**
 * Begin.
 * @param all name -> { title, mount(root, query) -> { update?(query), leave?() } }; "nowhere" is for all other names
 * @param told is told which page is shown
 */
export function start(all, told) {
  pages = all;
  changed = told;
  addEventListener("hashchange", () => {
    dismiss(); // first, or the new page's name could not get the focus
    show();
  });
  show();
}

/** Mount the page anew, for another user. */
export function again() {
  shown?.page?.leave?.();
  shown = null;
  show();
}

function show() {
  const { name, query } = place();
  const known = Object.hasOwn(pages, name) ? name : NOWHERE;
  if (shown?.name === known && shown.page.update) return shown.page.update(query);
  const moved = shown !== null;
  shown?.page.leave?.();
  const root = document.createElement("div");
  root.className = "stack";
  document.getElementById("main").replaceChildren(root);
  shown = { name: known, page: pages[known].mount(root, query) };
  changed(known, pages[known].title);
  if (!moved) return undefined;
  scrollTo(0, 0);
  // A screen reader goes on at the new page's name.
  const heading = root.querySelector("h1");
  if (!heading) return undefined;
  heading.tabIndex = -1;
  heading.focus();
  return undefined;
}
