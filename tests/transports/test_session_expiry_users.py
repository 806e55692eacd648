"""Sessions follow the users file when it is read again: users who are gone, new passcodes, other groups."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import structlog
import trio
from structlog.typing import EventDict
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway import auth
from gateway.auth import passwords
from gateway.broker.core.scheduler import Scheduler
from gateway.broker.errors import SessionEnded
from gateway.broker.model.identity import Credentials, Identity
from gateway.config import settings
from gateway.runtime.gateway import Gateway, open_gateway
from gateway.transports.connection import session_expiry

from .harness import Harness, MakeHarness
from .peers import Peer, dial

HASH = passwords.hash_passcode("right")
OTHER = passwords.hash_passcode("other")
RULES = """
[[rule]]
destination = "/topic/**"
groups = ["ops"]
allow = ["send", "subscribe"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # settings are read from the file there, at each reload, too
    return tmp_path


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    with structlog.testing.capture_logs() as lines:
        yield lines
    assert "argon2" not in str(lines)


@asynccontextmanager
async def opened(folder: Path, users: str, rules: str = "") -> AsyncIterator[Gateway]:
    (folder / "users").write_text(users)
    listeners = 'tcp = "127.0.0.1:0"\nwebsocket = "127.0.0.1:0"\nhttp = "127.0.0.1:0"\n'
    (folder / "gateway.toml").write_text(
        f'users_file = "users"\nlogin_delay = 0\nclose_linger = 0.1\n{listeners}{rules}'
    )
    found = settings.load()
    async with open_gateway(found, authenticator=auth.for_settings(found), read=settings.load) as gateway:
        yield gateway


async def come(gateway: Gateway, kind: str = "tcp", login: str = "ada", passcode: str = "right") -> Peer:
    peer = await dial(kind, gateway.addresses[kind][0])
    await peer.connect(login=login, passcode=passcode)
    return peer


def read_again(gateway: Gateway, folder: Path, users: str) -> None:
    (folder / "users").write_text(users)
    gateway.reload()


def of(logged: list[EventDict], event: str) -> list[EventDict]:
    return [line for line in logged if line["event"] == event]


class TestUsersFile:
    @pytest.mark.parametrize(
        ("users", "message", "words"),
        [
            ("", "user removed", "no longer has the user 'ada'; ask its operator"),
            (f"ada:{OTHER}\n", "passcode changed", "the passcode of 'ada' has been changed; log in with the new one"),
        ],
        ids=["gone", "another passcode"],
    )
    async def test_the_end(
        self, folder: Path, kind: str, users: str, message: str, words: str, logged: list[EventDict]
    ) -> None:
        async with opened(folder, f"ada:{HASH}\nbob:{HASH}\n") as gateway:
            ada, bob = await come(gateway, kind), await come(gateway, kind, "bob")
            read_again(gateway, folder, f"{users}bob:{HASH}\n")
            error = await ada.at_end_after_error()
            assert error["message"] == message
            assert words in error.body.decode()
            (line,) = of(logged, "login revoked")
            assert (line["log_level"], line["login"], line["reason"]) == ("info", "ada", message)
            await bob.settled()
            for peer in (ada, bob):
                await peer.aclose()

    async def test_a_broken_file_ends_no_session(self, folder: Path) -> None:
        async with opened(folder, f"ada:{HASH}\n") as gateway:
            ada = await come(gateway)
            read_again(gateway, folder, "ada without a hash\n")
            await ada.settled()
            (folder / "users").unlink()
            gateway.reload()
            await ada.settled()
            await ada.aclose()


class TestGroups:
    async def test_new_ones_count_at_once(self, folder: Path, logged: list[EventDict]) -> None:
        async with opened(folder, f"ada:{HASH}\n", RULES) as gateway:
            ada = await come(gateway, "tcp")
            read_again(gateway, folder, f"ada:{HASH}:ops,traders\n")
            await ada.subscribe("/topic/a")
            await ada.settled()
            (line,) = of(logged, "groups changed")
            assert (line["login"], line["groups"]) == ("ada", ["ops", "traders"])
            await ada.aclose()

    async def test_a_lost_permission_ends_the_session(self, folder: Path) -> None:
        async with opened(folder, f"ada:{HASH}:ops\nbob:{HASH}:ops\n", RULES) as gateway:
            ada, bob = await come(gateway, "tcp"), await come(gateway, "tcp", "bob")
            await ada.subscribe("/topic/a")
            read_again(gateway, folder, f"ada:{HASH}\nbob:{HASH}\n")
            error = await ada.at_end_after_error()
            assert error["message"] == "access refused"
            assert "groups have changed: ada may no longer subscribe to '/topic/a'" in error.body.decode()
            await bob.send_frame("BEGIN", transaction="t", receipt="r")  # he has nothing that he could lose
            await bob.frame("RECEIPT")
            await bob.send_frame("SEND", b"", destination="/topic/a")
            assert (await bob.at_end_after_error())["message"] == "access refused"
            for peer in (ada, bob):
                await peer.aclose()

    async def test_groups_and_rules_of_one_reload_belong_together(self, folder: Path) -> None:
        """With his old groups he may do nothing by the new rules, and with the new ones nothing by the old rules."""
        async with opened(folder, f"ada:{HASH}:ops\n", RULES) as gateway:
            ada = await come(gateway, "tcp")
            await ada.subscribe("/topic/a")
            text = (folder / "gateway.toml").read_text()
            (folder / "gateway.toml").write_text(text.replace('"ops"', '"operators"'))
            read_again(gateway, folder, f"ada:{HASH}:operators\n")
            await ada.settled()
            await ada.publish("/topic/a", b"m")
            assert (await ada.frame("MESSAGE")).body == b"m"
            await ada.aclose()


class Directory:
    """An authenticator whose users can be taken out."""

    name = "directory"

    def __init__(self) -> None:
        self.gone: set[str] = set()

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return Identity(credentials.login or "", review=self._review)

    def _review(self, identity: Identity) -> Identity:
        if identity.user in self.gone:
            raise SessionEnded("user removed", "for a test")
        return identity

    def reload(self) -> str | None:
        return None


@pytest.fixture
async def harness(make_harness: MakeHarness, autojump_clock: MockClock) -> Harness:
    return make_harness(authenticator=Directory())


class TestFollowed:
    async def test_many_end_in_turns(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        """All lose their rights at once, and no turn ends more than some."""
        registry = harness.authenticator
        assert isinstance(registry, Directory)
        many = 3 * session_expiry._FOLLOWS_PER_TURN + 1
        peers = [await harness.session("tcp", login="ada") for _ in range(many)]
        other = await harness.session("tcp", login="bob")
        registry.gone.add("ada")
        proceed, left = Scheduler.proceed, [many]

        def counted(scheduler: Scheduler) -> bool:
            more = proceed(scheduler)
            left.append(sum(each._ending is None for each in harness.server.connections.values()) - 1)
            return more

        monkeypatch.setattr(Scheduler, "proceed", counted)
        session_expiry.SessionReviewer(registry.name, registry.reload, harness.server).reload()
        async with trio.open_nursery() as nursery:
            for peer in peers:
                nursery.start_soon(partial(_ended, peer))
        await other.settled()
        assert max(before - after for before, after in itertools.pairwise(left)) == session_expiry._FOLLOWS_PER_TURN
        await other.aclose()

    async def test_one_that_has_gone_meanwhile(self, harness: Harness, logged: list[EventDict]) -> None:
        """Between the reload and the turn in which it would end."""
        registry = harness.authenticator
        assert isinstance(registry, Directory)
        peer = await harness.session("tcp", login="ada")
        (connection,) = harness.server.connections.values()
        lease = connection.session_expiry
        assert lease is not None
        registry.gone.add("ada")
        assert lease.review()
        await peer.send_frame("DISCONNECT")
        await peer.at_end()
        await peer.aclose()
        await wait_all_tasks_blocked()
        lease.follow()
        assert not of(logged, "login revoked")


async def _ended(peer: Peer) -> None:
    assert (await peer.at_end_after_error())["message"] == "user removed"
    await peer.aclose()
