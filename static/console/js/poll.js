// Polling at a bounded cost: rarely while the page is hidden, not at all while the gateway does not answer, and never
// so often that answers take more than a fifth of the time.

import { NeedsLogin, Unreachable } from "./api.js";
import { whenHere } from "./line.js";

const HIDDEN = 30_000; // milliseconds, in a tab in the background
const SHARE = 5;
const LATELY = 3; // turns; the quickest of them tells what an answer takes, the others met something else

/**
 * Run a task now and then.
 * @param task gets a signal that ends what it waits for; what it throws goes to `failed`
 * @param every milliseconds from one turn's beginning to the next one's, or a function that gives them
 * @returns soon(), which does not wait for the time; again(), which does not wait for the running turn either; stop()
 */
export function poll(task, every, failed = () => {}) {
  let stopped = false;
  let wake = () => {};
  let running = null;
  let asked = false;
  let took = [];

  async function turn() {
    running = new AbortController();
    asked = false;
    try {
      await task(running.signal);
    } catch (error) {
      if (stopped || running.signal.aborted) return;
      if (error instanceof Unreachable) await whenHere();
      else if (!(error instanceof NeedsLogin)) failed(error);
    }
  }

  async function run() {
    while (!stopped) {
      const began = performance.now();
      await turn();
      if (stopped) return;
      if (asked) continue; // what was ended early tells nothing
      const usual = typeof every === "function" ? every() : every;
      const passed = performance.now() - began;
      took = [passed, ...took].slice(0, LATELY);
      const cost = took.length < LATELY ? 0 : Math.min(HIDDEN, Math.min(...took) * SHARE);
      await pause(document.hidden ? HIDDEN : Math.max(usual - passed, cost));
    }
  }

  function pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  const looked = () => document.hidden || wake();
  document.addEventListener("visibilitychange", looked);
  run();
  return {
    soon: () => wake(),
    again() {
      asked = true;
      running?.abort();
      wake();
    },
    stop() {
      stopped = true;
      running?.abort();
      wake();
      document.removeEventListener("visibilitychange", looked);
    },
  };
}
