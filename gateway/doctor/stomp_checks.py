"""STOMP: the upgrade, the login, messages of two sizes, silent connections, and the client's address at the gateway.

Messages go through a temporary topic of the session, which needs no rule and ends with it.

Two silent connections are held beside the other checks.  One has no heart-beats: on a WebSocket only the server's ping
breaks its silence, so a proxy must bear the time from the upgrade to that ping.  The other has heart-beats each third
of `--idle`; two must come.  A cut after a longer silence does not show.

The client's address is that of a session in the admin API.  Its upgrade claims to be forwarded for an address that no
client has, so the API shows the address of this machine, of the proxy, or the claim.
"""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import quote

import trio

from gateway.codec import Frame
from gateway.config.toml_file import config_file

from .clients import (
    SUBPROTOCOLS,
    Connector,
    HttpResponse,
    NoFrame,
    NotHttp,
    StompClient,
    UpgradeRefused,
    http_get,
    stomp_connection,
)
from .connection_checks import explain
from .model import HTTP, TCP, WEBSOCKET, CheckOptions, CheckReport, Problem, Target, own_targets, printable

_TOPIC = "/temp-topic/doctor"
_OTHER_SITE = "https://doctor.invalid"
_CLAIMED_ADDRESS = "192.0.2.99"  # for documentation (RFC 5737)
_OWN_LOOPBACK = "127.0.0.77"  # no other client of this machine has it
_WRONG_ORIGIN = b"allowed_origins"  # in the gateway's answer to a page of another site
_SLOW = 1.0  # seconds for a small message, which takes the gateway some milliseconds
_LEAST_HEARTBEATS = 2
_CUT = "cut"  # a connection that ended without an ERROR
_LOGIN_ERRORS = ("login refused", "too many failed logins")
_PROXY_ERRORS = ("malformed header line", "NUL byte among the headers", "this is not STOMP")

_PROXY_SENDS_HEADER = "the proxy seems to send a PROXY header, which the gateway does not expect"
_FORWARDED_FOR = "nginx: `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`"
_UPGRADE_REMEDY = (
    "nginx, in the location of the WebSocket: `proxy_http_version 1.1;`, "
    '`proxy_set_header Upgrade $http_upgrade;` and `proxy_set_header Connection "upgrade";`'
)
_WEBSOCKET_TIMEOUT = "nginx: `proxy_read_timeout 60s;` and `proxy_send_timeout 60s;` in the location of the WebSocket"
_TCP_TIMEOUT = "nginx, stream: `proxy_timeout 10m;`"
_BUFFERED = "A proxy or scanner on the way collects bytes: nginx `proxy_buffering off;`"
_LARGE_REMEDY = (
    "Raise the limit for messages in the proxy or firewall on the way; nginx has none for a WebSocket. "
    "The gateway's own limit is max_body"
)


class ConnectRefused(Problem):
    """The answer to CONNECT is an ERROR; `is_login` is True where the reason is the login."""

    def __init__(self, error: Frame, target: Target) -> None:
        message = error.headers.get("message", "")
        text = error_text(error)
        super().__init__(text, "Follow the text of the ERROR")
        self.is_login = message in _LOGIN_ERRORS
        if self.is_login:
            self.remedy = "Give the right passcode, or a fresh token; the gateway's log has the reason"
        elif message in _PROXY_ERRORS:
            self.detail = f"{_PROXY_SENDS_HEADER} ({text})"
            self.remedy = "Write tcp_proxy_protocol = true and name the proxy in trusted_proxies, or write "
            self.remedy += "`proxy_protocol off;` there (nginx)"
        elif message == "TLS only":
            self.remedy = f"Connect to {replace(target, tls=True)}"


def error_text(error: Frame) -> str:
    body = f": {printable(error.body)}" if error.body else ""
    return f"ERROR {printable(error.headers.get('message', ''))}{body}"


class StompChecks:
    def __init__(self, connector: Connector, target: Target, options: CheckOptions, report: CheckReport) -> None:
        self._connector = connector
        self._target = target
        self._options = options
        self._report = report
        self._login: Mapping[str, str] = {}  # headers of CONNECT that the gateway accepts

    async def run(self, nursery: trio.Nursery) -> None:
        """All checks; those of silence go on in the nursery."""
        if self._target.kind == WEBSOCKET and not await self._can_upgrade():
            return
        with self._report.check(f"{self._target} session"):
            if not await self._may_connect():
                return
            async with self._session(self._login) as (client, connected):
                if self._login:
                    user = connected.headers.get("user-name") or self._options.login
                    login = self._report.check(f"{self._target} login")
                    login.ok(f"let in as {printable(user)}" if user else "let in")
                await self._check_messages(client)
            if self._options.idle:
                nursery.start_soon(self._check_heartbeats)
                if self._target.kind == WEBSOCKET:
                    nursery.start_soon(self._check_silence)
            if self._options.settings is not None and not self._options.is_direct(self._target):
                await self._check_client_address()

    @asynccontextmanager
    async def _session(
        self, headers: Mapping[str, str], upgrade_headers: Mapping[str, str] | None = None, source: str | None = None
    ) -> AsyncIterator[tuple[StompClient, Frame]]:
        """A session for the time of the block, with its CONNECTED frame; raises ConnectRefused or Problem."""
        connector = replace(self._connector, source=source)
        async with stomp_connection(connector, self._target, upgrade_headers) as client:
            try:
                with trio.fail_after(connector.patience):
                    answer = await client.connect({"accept-version": "1.2", "host": self._target.host, **headers})
            except trio.TooSlowError:
                remedy = "The server there reads and does not answer: look into its log, and into the gateway's"
                raise Problem(f"no answer to CONNECT within {connector.patience:g} s", remedy) from None
            except NoFrame as end:
                raise await self._no_answer(end.start, client.close_reason) from None
            if answer.command != "CONNECTED":
                raise ConnectRefused(answer, self._target)
            yield client, answer

    async def _no_answer(self, start: bytes, close_reason: str) -> Problem:
        if (problem := await explain(self._connector, self._target)) is not None:
            return problem
        if start:
            detail = f"the answer to CONNECT is {printable(start)!r}, which is not STOMP"
            return Problem(detail, "Another program has this port: stop it, or connect to the gateway's port")
        remedy = (
            "The gateway's log has the reason. With tcp_proxy_protocol = true it closes connections that do not come "
            "from trusted_proxies, or that have no PROXY header"
        )
        return Problem(f"it closed at CONNECT without an answer{close_reason}", remedy)

    async def _can_upgrade(self) -> bool:
        """Ask for the upgrade as a page does; True if a session can follow."""
        target = self._target
        origin = self._options.origin or (self._options.url or target).origin
        with self._report.check(f"{target} upgrade") as check:
            try:
                async with stomp_connection(self._connector, target, {"Origin": origin}) as client:
                    subprotocol = client.subprotocol
            except NotHttp as problem:
                raise await explain(self._connector, target) or problem from None
            except UpgradeRefused as refusal:
                check.fail(*await self._refusal(refusal.response, origin))
                return _WRONG_ORIGIN in refusal.response.body  # programs, which name no origin, may get it
            if subprotocol in SUBPROTOCOLS:
                check.ok(f"a page of {origin} gets it, with {subprotocol}")
            else:
                detail = f"the answer names none of the subprotocols {', '.join(SUBPROTOCOLS)}: browsers close"
                check.fail(detail, "Let the proxy pass Sec-WebSocket-Protocol on, both ways")
            await self._check_other_site()
            return True
        return False

    async def _check_other_site(self) -> None:
        with self._report.check(f"{self._target} origin") as check:
            try:
                async with stomp_connection(self._connector, self._target, {"Origin": _OTHER_SITE}):
                    remedy = 'Name the sites one by one: allowed_origins = ["https://app.example.org"], without "*"'
                    check.warn("pages of every site can open it", remedy)
            except UpgradeRefused:
                check.ok("pages of other sites are refused")

    async def _refusal(self, response: HttpResponse, origin: str) -> tuple[str, str]:
        """Detail and remedy for a refused upgrade: by status, by body, and by headers that only a proxy sends."""
        target, status = self._target, response.status
        location = target.path or "/"
        is_of_proxy = not response.headers.keys().isdisjoint(("server", "date", "via"))
        if _WRONG_ORIGIN in response.body:
            return f"pages of {origin} are refused", (
                f"If that page is yours, write allowed_origins = [{json.dumps(origin)}]; if it comes from "
                f"{target.host} itself, let nginx pass its name on: `proxy_set_header Host $http_host;`"
            )
        if status == 400 and (problem := await explain(self._connector, target)) is not None:
            return problem.detail, problem.remedy
        if status == 400 and not is_of_proxy and not response.body:
            remedy = "Write websocket_proxy_protocol = true and trusted_proxies, or switch it off in the proxy"
            return _PROXY_SENDS_HEADER, remedy
        if status in (400, 426):
            return f"the upgrade does not reach the gateway: {response}", _UPGRADE_REMEDY
        if b"STOMP over WebSocket is at" in response.body:
            return f"the path is wrong: {response}", "Connect to that path, or change websocket_path"
        if status in (200, 404):
            remedy = f"nginx: `location = {location} {{ proxy_pass http://127.0.0.1:15674; ... }}`, with the path of "
            return f"there is no WebSocket at {location}: {response}", f"{remedy}websocket_path; or connect to that"
        if 300 <= status < 400:
            remedy = f"Connect to its target; browsers do not follow it. For TLS use wss://{target.host}{target.path}"
            return f"the answer is a redirect ({status})", remedy
        if status in (401, 403):
            remedy = f"Take `auth_basic`, `allow` and `deny` from {location}"
            return f"the proxy refuses it: {response}", remedy
        if status == 429:
            return f"{response}", "Raise max_connections_per_address, or set trusted_proxies"
        if status in (502, 504):
            remedy = "nginx: let proxy_pass name the address in the setting `websocket`, and see that the gateway runs"
            return f"the proxy does not reach the gateway ({status})", remedy
        return f"it is refused: {response}", "Look into the logs of the gateway and the proxy"

    async def _may_connect(self) -> bool:
        """Connect without a login; True if there is a login, or none is necessary."""
        target, credentials = self._target, self._options.login_headers
        check = self._report.check(f"{target} anonymous")
        try:
            async with self._session({}):
                pass
        except ConnectRefused as refusal:
            if not refusal.is_login:
                raise
            check.ok("a client without a login is refused")
        else:
            if target.is_loopback and self._options.is_direct(target):
                check.ok("a client needs no login, and can come from this machine only")
            else:
                remedy = "Set users_file (`gateway passwd users.txt NAME`), jwt_keys or another authenticator"
                check.fail("a client needs no login, and can come from other machines", remedy)
            if not credentials:
                return True
        check = self._report.check(f"{target} login")
        if not credentials:
            check.warn("not tried", "Give --login NAME --passcode-file FILE, or --token-file FILE")
        elif not target.is_trusted:
            check.warn("not tried, because the certificate does not hold", "Correct that first")
        else:
            self._login = credentials
            return True
        return False

    async def _check_messages(self, client: StompClient) -> None:
        """Send a small message and a large one, there and back."""
        with self._report.check(f"{self._target} message") as check:
            await client.send("SUBSCRIBE", {"id": "doctor", "destination": _TOPIC})
            seconds = await self._send_and_receive(client, b"doctor", _BUFFERED)
            if seconds > _SLOW:
                check.warn(f"a small one takes {seconds:.1f} s, there and back", _BUFFERED)
            else:
                check.ok(f"a small one takes {seconds * 1000:.0f} ms, there and back")
            with self._report.check(f"{self._target} large message") as check:
                body = os.urandom(self._options.message_size // 2).hex().encode()  # text, as browsers send it
                seconds = await self._send_and_receive(client, body, _LARGE_REMEDY)
                check.ok(f"{len(body)} bytes take {seconds * 1000:.0f} ms, there and back")

    async def _send_and_receive(self, client: StompClient, body: bytes, remedy: str) -> float:
        """Seconds until the message is back; raises Problem."""
        message, patience = f"a message of {len(body)} bytes", self._options.patience
        started = trio.current_time()
        try:
            with trio.fail_after(patience):
                await client.send("SEND", {"destination": _TOPIC}, body)
                while True:
                    frame = await client.frame()
                    if frame.command == "ERROR":
                        raise Problem(f"{message} is refused: {error_text(frame)}", "Follow the text of the ERROR")
                    if frame.command == "MESSAGE" and frame.body == body:
                        return trio.current_time() - started
        except trio.TooSlowError:
            raise Problem(f"{message} did not come back within {patience:g} s", remedy) from None
        except NoFrame:
            raise Problem(f"{message} broke the connection{client.close_reason}", remedy) from None

    async def _check_silence(self) -> None:
        """Hold a connection without heart-beats until the server's ping."""
        settings = self._options.settings
        ping = settings.websocket_ping if settings is not None else 0
        with self._report.check(f"{self._target} silence") as check:
            async with self._session({**self._login, "heart-beat": "0,0"}) as (client, _):
                ending, seconds = await self._listen(client, until_ping=True)
            if client.pings:
                check.ok(f"held for {seconds:.0f} s, until the server's ping")
            elif ending == _CUT:
                detail = f"cut after {seconds:.1f} s without a byte{client.close_reason}"
                if ping:
                    detail += f", before the server's ping (websocket_ping, {ping:g} s)"
                shorter = f"or write websocket_ping = {max(seconds * 0.4, 1):.0f}"
                raise Problem(detail, f"{_WEBSOCKET_TIMEOUT}, {shorter}")
            elif ending:
                raise Problem(f"ended after {seconds:.0f} s: {ending}", "Follow the text of the ERROR")
            elif 0 < ping < self._options.idle:
                detail = f"no ping in {seconds:.0f} s, though websocket_ping is {ping:g} s"
                remedy = "A proxy answers pings itself, or keeps them: let clients agree on heart-beats"
                raise Problem(detail, remedy)
            else:
                remedy = "Hold it longer than websocket_ping: --idle SECONDS"
                check.warn(f"held for {seconds:.0f} s; no ping came", remedy)

    async def _check_heartbeats(self) -> None:
        """Hold a connection that agreed on heart-beats, and count them."""
        interval = self._options.idle / 3
        asked = f"{interval * 1000:.0f},{interval * 1000:.0f}"
        with self._report.check(f"{self._target} heart-beats") as check:
            async with self._session({**self._login, "heart-beat": asked}) as (client, _):
                agreed = client.heartbeat_interval
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.send_heartbeats, agreed or interval)
                    ending, seconds = await self._listen(client)
                    nursery.cancel_scope.cancel()
            if ending == _CUT:
                detail = f"cut after {seconds:.1f} s, though heart-beats of {agreed:.1f} s were agreed"
                timeout = _TCP_TIMEOUT if self._target.kind == TCP else _WEBSOCKET_TIMEOUT
                raise Problem(detail, f"{timeout}, or let clients send heart-beats more often")
            if ending:
                remedy = f"Our heart-beats do not arrive in time. {_BUFFERED}"
                raise Problem(f"the gateway ended it after {seconds:.0f} s: {ending}", remedy)
            detail = f"{client.heartbeats} of the server came in {seconds:.0f} s"
            if not agreed:
                remedy = "Write heartbeat_send = 250, so that clients can ask for them"
                check.warn("the server sends none", remedy)
            elif client.heartbeats < _LEAST_HEARTBEATS:
                raise Problem(f"{detail}, though one each {agreed:.1f} s was agreed", _BUFFERED)
            else:
                check.ok(f"{detail}, one each {agreed:.1f} s was agreed")

    async def _listen(self, client: StompClient, *, until_ping: bool = False) -> tuple[str, float]:
        """Listen for `--idle` seconds; returns how the session ended (empty: it did not), and the seconds."""
        ending = ""
        started = trio.current_time()
        with trio.move_on_after(self._options.idle) as scope:
            client.on_ping = scope.cancel if until_ping else None
            try:
                ending = error_text(await client.frame())
            except NoFrame:
                ending = _CUT
        return ending, trio.current_time() - started

    async def _check_client_address(self) -> None:
        target, settings = self._target, self._options.settings
        check = self._report.check(f"{target} client address")
        admin = next(iter(own_targets(settings)[HTTP]), None) if settings is not None else None
        if settings is None or admin is None:
            return
        try:
            local = await self._connector.local_address(target)
            local = _OWN_LOOPBACK if local.startswith("127.") else local
            claim = {"X-Forwarded-For": _CLAIMED_ADDRESS}
            async with self._session(self._login, claim, local if local == _OWN_LOOPBACK else None) as (_, connected):
                seen = await self._address_at(admin, connected.headers.get("session", ""), settings.admin_token)
        except Problem as problem:
            check.warn(f"not known: {problem.detail}", problem.remedy)
            return
        detail = f"all clients are {seen} to the gateway, the proxy: limits, logs and the journal count them as one"
        proxies = json.dumps([*settings.trusted_proxies, seen])
        if seen == local:
            check.ok(f"the gateway sees it behind the proxy ({local})")
        elif seen == _CLAIMED_ADDRESS:
            detail = "a client can invent its address: the proxy passes its X-Forwarded-For on"
            check.fail(detail, f"{_FORWARDED_FOR}, which adds the client's own")
        elif seen != "unix" and not ip_address(seen).is_private:
            check.warn(f"the gateway sees {seen}, and we connect from {local}", "A NAT on the way explains that")
        elif target.kind == TCP:
            remedy = f"Write tcp_proxy_protocol = true, trusted_proxies = {proxies}, and `proxy_protocol on;` in nginx"
            check.fail(detail, remedy)
        elif seen in settings.trusted_proxies:
            check.fail(detail, f"{_FORWARDED_FOR} in the location of the WebSocket")
        else:
            check.fail(detail, f"Write trusted_proxies = {proxies} in {config_file()}, and in {_FORWARDED_FOR}")

    async def _address_at(self, admin: Target, session: str, token: str) -> str:
        """The address of a session in the admin API, without its port; raises Problem."""
        connector = replace(self._connector, preface=b"")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = await http_get(connector, admin, f"/api/v1/sessions/{quote(session, safe='')}", headers)
        remedy = "Check that this is the gateway behind the proxy"
        if response.status == 404:
            raise Problem(f"the gateway at {admin} does not know our session", remedy)
        if response.status != 200:
            raise Problem(f"the API at {admin} answers {response.status}", "Run the doctor on the gateway's machine")
        try:
            peer = str(json.loads(response.body)["peer"])
            has_port = peer.count(":") == 1 or peer.startswith("[")
            host = peer.rpartition(":")[0].strip("[]") if has_port else peer
            return host if host == "unix" else str(ip_address(host))
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Problem(f"the API at {admin} names no address", remedy) from None
