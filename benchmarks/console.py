"""What the console costs a gateway with 5,000 sessions and 10,000 queues; Chromium shows it, through nginx with TLS.

    python -m benchmarks.console                            three minutes; a row for each page
    python -m benchmarks.console --rounds 1 --seconds 4     does it run

The figure is CPU of the gateway while a page is shown, less that while none is, in percent of a core.  Both are taken
in turn, and medians count.  Beside it stands how far apart the updates were that the page itself saw: one client sends
twenty messages a second, so that there is something new on each page each time.

It needs what the tests of the console need: `make test` installs that, and so does `tests/install-tools tests`.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from playwright.sync_api import Page, sync_playwright

from benchmarks.crowd import QUEUES, SESSIONS, crowd, growing
from benchmarks.server import Server
from tests.clients.driver import tool
from tests.console.conftest import ARGUMENTS, TOKEN, Visit, fronted

PLACES = ("overview", "destinations?sort=-waiting", "sessions?sort=-frames_in")
"""Pages, in an order in which what grows stands first."""
SETTLE = 4.0
"""Seconds after which a page has loaded, and asks as it always does."""
PATIENCE = 60.0

_WATCH = """() => {
  window.watching?.disconnect();
  window.updates = [];
  const main = document.querySelector("main");
  let text = main.textContent;
  window.watching = new MutationObserver(() => {
    if (main.textContent === text) return;
    text = main.textContent;
    updates.push(performance.now());
  });
  watching.observe(main, { subtree: true, childList: true, characterData: true });
}"""


def watch(page: Page) -> None:
    """From now on, and not before, the page writes down when its text changes."""
    page.evaluate(_WATCH)


def wait_for_updates(page: Page, count: int) -> None:
    """Wait until a page that is watched has seen so many.

    Raises:
        playwright.sync_api.TimeoutError: it does not.
    """
    page.wait_for_function("count => updates.length >= count", arg=count, timeout=PATIENCE * 1000)


def gaps(page: Page) -> list[float]:
    """Seconds between one update and the next, since it is watched."""
    times: list[float] = page.evaluate("updates")
    return [(after - before) / 1000 for before, after in itertools.pairwise(times)]


def load(pid: int, seconds: float) -> float:
    """CPU that this process takes in so many seconds, in percent of a core."""
    spent, began = Server(pid, {}).stopwatch(), time.monotonic()
    time.sleep(seconds)
    return 100 * spent() / (time.monotonic() - began)


def main() -> None:
    """Measure each page, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each part of a round, and more than 3")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    costs: dict[str, list[float]] = {place: [] for place in PLACES}
    apart: dict[str, list[float]] = {place: [] for place in PLACES}
    with _visit() as visit:
        pid = visit.front.gateway.pid
        for _ in range(options.rounds):
            visit.page.goto("about:blank")
            time.sleep(SETTLE)
            nothing = load(pid, options.seconds)
            for place in PLACES:
                visit.open(place)
                time.sleep(SETTLE)
                watch(visit.page)
                costs[place].append(load(pid, options.seconds) - nothing)
                apart[place] += gaps(visit.page)
    print(f"| page, at {SESSIONS:,} sessions and {QUEUES:,} queues | of a core | seconds between updates |")
    print("|---|---|---|")
    for place in PLACES:
        spread = f"{min(costs[place]):.2f} to {max(costs[place]):.2f}"
        between = f"{median(apart[place]):.2f}, at most {max(apart[place]):.2f}"
        print(f"| {place.partition('?')[0]} | {median(costs[place]):.2f} % ({spread}) | {between} |")


@contextmanager
def _visit() -> Iterator[Visit]:
    """Somebody who has logged in, and sees the crowd."""
    with fronted(admin_token=TOKEN) as front, crowd(front.gateway.tcp_port), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=tool("chromium"), args=ARGUMENTS)
        with growing(front.gateway.tcp_port, "/queue/growing"):
            visit = Visit(browser.new_page(ignore_https_errors=True), front)  # it does not know the authority
            visit.open()
            yield visit
            browser.close()


if __name__ == "__main__":
    main()
