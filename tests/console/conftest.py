"""A browser, a gateway, and the two ways to its console: straight over loopback, and through nginx with TLS.

Whatever a page does in a test, at its end nothing may have been asked for anywhere else, and the browser's console must
not have complained.  A test that makes complaints on purpose (an outage, a refused login) says which.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from tests.clients.driver import ROOT, tool
from tests.clients.nginx import start_nginx_tls
from tests.gateway_process import GatewayProcess, start_gateway

TOKEN = "the-operators-token"
ARGUMENTS = [
    "--no-sandbox",  # Chromium refuses to start as root with it, and loads nothing but our own pages here
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--ignore-certificate-errors",  # where they arise: each restart by Playwright counts in Chromium
]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

expect.set_options(timeout=15_000)


def rows(page: Page) -> Locator:
    """The rows of the page's table."""
    return page.get_by_role("region", name="Table of").locator("tbody tr")


def cell(row: Locator, name: str) -> Locator:
    """What a row of the page's table has in the column of that name."""
    heads = row.locator("xpath=ancestor::table").get_by_role("columnheader")
    expect(heads.filter(has_text=name)).to_have_count(1)
    return row.locator("th, td").nth([text.strip() for text in heads.all_text_contents()].index(name))


@dataclass(frozen=True)
class Front:
    """A gateway, and where a browser finds its console.

    Attributes:
        url: of the gateway's pages, without a slash at the end.
        token: that the console asks for; empty: it does not.
    """

    gateway: GatewayProcess
    url: str
    token: str = ""


@dataclass
class Visit:
    """A page of the console, and what went wrong in it.

    Attributes:
        tolerated: complaints that begin or end like that are expected.
    """

    page: Page
    front: Front
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    tolerated: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in self.tolerated):
            self.complaints.append(message.text)

    def _request(self, request: Request) -> None:
        host = urlsplit(self.front.url).hostname
        if urlsplit(request.url).hostname not in (host, None):
            self.foreign.append(request.url)

    def open(self, place: str = "overview") -> Page:
        """Go to a page of the console, and log in where it asks."""
        stranger = self.front.token and not self.page.context.cookies()
        if stranger:
            self.tolerated += ("401",)  # that one has to log in
        self.page.goto(f"{self.front.url}/console/#/{place}")
        if stranger:
            self.page.get_by_label("Admin token").fill(self.front.token)
            self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        return self.page

    def faults(self) -> list[str]:
        """What axe-core finds in the page as it is, be it ever so small."""
        # Evaluated over the debugger's wire, so the page's own policy against foreign scripts stays as it is.
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes']]}"
            for each in found["violations"]
        ]

    def check(self) -> None:
        """Nothing from elsewhere, and no complaints."""
        assert self.foreign == []
        assert self.complaints == []


@contextmanager
def fronted(**settings: object) -> Iterator[Front]:
    """A gateway with these settings, and nginx with TLS before it."""
    with (
        start_gateway(trusted_proxies="127.0.0.1", **settings) as gateway,
        start_nginx_tls(gateway.ws_port, gateway.http_port, gateway.tcp_port) as nginx,
    ):
        yield Front(gateway, nginx.url, str(settings.get("admin_token", "")))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    assert AXE.exists(), "node's package axe-core is missing: run `tests/install-tools tests`"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=tool("chromium"), args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="package")
def straight() -> Iterator[Front]:
    """A gateway on this machine, where no login is needed."""
    with start_gateway() as gateway:
        yield Front(gateway, gateway.http_url)


@pytest.fixture(scope="package")
def behind_nginx() -> Iterator[Front]:
    """A gateway behind nginx with TLS, and an admin token."""
    with fronted(admin_token=TOKEN) as front:
        yield front


@pytest.fixture(params=["tls"])
def front(request: pytest.FixtureRequest) -> Front:
    """A way to the console: "tls" through nginx, or "straight"; a test may name it by an indirect parameter."""
    found: Front = request.getfixturevalue({"tls": "behind_nginx", "straight": "straight"}[request.param])
    return found


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What a test starts for itself; it is stopped when its tabs have gone, or they would complain."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def starting(opened: ExitStack) -> Callable[..., Front]:
    """Starts a gateway with these settings, for this test alone."""

    def start(**settings: object) -> Front:
        gateway = opened.enter_context(start_gateway(**settings))
        return Front(gateway, gateway.http_url)

    return start


@pytest.fixture
def starting_behind_nginx(opened: ExitStack) -> Callable[..., Front]:
    """The same, with an nginx before it."""

    def start(**settings: object) -> Front:
        return opened.enter_context(fronted(**settings))

    return start


@pytest.fixture
def visiting(browser: Browser, opened: ExitStack) -> Iterator[Callable[..., Visit]]:
    """Opens a tab for a front, with a color scheme and a size; at the end no tab may have complained."""
    visits: list[Visit] = []

    def visit(front: Front, *, scheme: str = "light", width: int = 1280, height: int = 800) -> Visit:
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": width, "height": height},
            ignore_https_errors=True,  # Chromium does not know the test's authority
            reduced_motion="reduce",
        )
        visits.append(Visit(context.new_page(), front))
        return visits[-1]

    yield visit
    for each in visits:
        each.page.context.close()
    for each in visits:
        each.check()


@pytest.fixture
def visit(visiting: Callable[..., Visit], front: Front) -> Visit:
    """A tab of a desktop, in light colours."""
    return visiting(front)


@pytest.fixture
def admins(tmp_path: Path) -> tuple[Path, str]:
    """A users file, and the group in which its one user is: ada, whose passcode is `engine`."""
    file = tmp_path / "users.txt"
    command = [sys.executable, "-m", "gateway", "passwd", str(file), "ada", "--group", "operators"]
    subprocess.run(command, input=b"engine\n", check=True, capture_output=True, timeout=30)
    return file, "operators"
