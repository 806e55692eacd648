"""Users of a file, the slow threads that verify their passcodes, and the authenticator that the settings ask for."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.typing import EventDict
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway import auth
from gateway.auth import passwords, users
from gateway.auth.authenticator import Anonymous
from gateway.auth.failed_logins import PLACES, FailedLogins, TooManyFailedLogins
from gateway.auth.users import NICENESS, SlowThreads, UsersFile
from gateway.broker.errors import LoginRefused, SessionEnded
from gateway.broker.model.identity import Certificate, Credentials, Identity
from gateway.config.settings import SettingsError, load
from tests.transports.peers import until

from .issuer import write

SECRET = passwords.hash_passcode("secret")
OTHER = passwords.hash_passcode("other")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "users.txt"
    write(path, f"alice:{SECRET}\nbob:{OTHER}\n")
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    asked = []

    def verify(hashed: str, passcode: str) -> bool:
        asked.append((hashed, passcode))
        return (hashed, passcode) in {(SECRET, "secret"), (OTHER, "other")}

    monkeypatch.setattr(passwords, "verify", verify)
    return asked


class TestAuthenticate:
    async def test_credentials(self, path: Path, asked: list[tuple[str, str]]) -> None:
        found = UsersFile(path)
        for login, passcode, user in (
            ("alice", "secret", "alice"),
            ("bob", "other", "bob"),
            ("alice", "other", None),
            ("alice", "", None),
            ("Alice", "secret", None),
            ("", "secret", None),
            ("carol", "secret", None),
            ("alice", None, None),
            (None, "secret", None),
            (None, None, None),
            ("alice", "\ud800", None),
        ):
            identity = await found.authenticate(Credentials(login, passcode))
            assert identity == (None if user is None else Identity(user)), (login, passcode)
        asked.clear()
        for login, passcode in (("alice", "x" * 1025), ("x" * 1025, "secret")):  # too long to be hashed
            assert await found.authenticate(Credentials(login, passcode)) is None
        assert asked == []

    async def test_an_unknown_user_costs_a_verification_too(self, path: Path, asked: list[tuple[str, str]]) -> None:
        # Against the hash of alice, for which the passcode is right.
        assert await UsersFile(path).authenticate(Credentials("carol", "secret")) is None
        assert asked == [(SECRET, "secret")]
        write(path, "# empty\n")
        assert await UsersFile(path).authenticate(Credentials("alice", "secret")) is None

    async def test_a_verified_passcode_is_remembered(self, path: Path, asked: list[tuple[str, str]]) -> None:
        found = UsersFile(path)
        for _ in range(3):
            assert await found.authenticate(Credentials("alice", "secret")) == Identity("alice")
        write(path, f"# new\nalice:{SECRET}\n")
        assert await found.authenticate(Credentials("alice", "secret")) == Identity("alice")
        assert len(asked) == 1
        assert await found.authenticate(Credentials("alice", "other")) is None
        assert await found.authenticate(Credentials("alic", "esecret")) is None
        assert len(asked) == 3


class TestFlood:
    async def test_a_remembered_passcode_is_refused_too(self, path: Path) -> None:
        """A check without a hash would let a client guess a thousand times a second."""
        failed = FailedLogins(1)
        found = UsersFile(path, failed)
        credentials = Credentials("alice", "secret", address="192.0.2.1")
        assert await found.authenticate(credentials) == Identity("alice")
        failed.count("192.0.2.1")
        with pytest.raises(TooManyFailedLogins):
            await found.authenticate(credentials)

    async def test_other_addresses_wait_behind_a_few_guesses_only(
        self, path: Path, asked: list[tuple[str, str]]
    ) -> None:
        found = UsersFile(path)
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(found.authenticate, Credentials("alice", f"guess {number}", address="192.0.2.1"))
            while sum(each.length for each in found._queue._queues.values()) < 50:
                await trio.lowlevel.checkpoint()
            assert await found.authenticate(Credentials("alice", "secret", address="192.0.2.2")) == Identity("alice")
        assert asked.index((SECRET, "secret")) <= 2 * PLACES + users.THREADS
        assert len(asked) == 101


async def test_an_identity_is_reviewed_when_the_file_is_read_again(path: Path) -> None:
    found = UsersFile(path)
    identities = []
    for _ in range(2):  # verified, and remembered
        identity = await found.authenticate(Credentials("alice", "secret"))
        assert identity is not None
        assert SECRET not in repr(identity)
        identities.append(identity)

    def review(text: str) -> list[Identity]:
        write(path, text)
        found.file.reload()
        return [each.review(each) for each in identities if each.review is not None]

    for text in (f"# new\nalice:{SECRET}\n", "alice\n"):  # a damaged file changes nothing
        assert review(text) == identities
    assert [each.groups for each in review(f"alice:{SECRET}:ops,traders\n")] == [{"ops", "traders"}] * 2
    with pytest.raises(SessionEnded, match=r"^passcode changed$"):  # another hash of the same passcode
        review(f"alice:{passwords.hash_passcode('secret')}\n")
    with pytest.raises(SessionEnded, match=r"^user removed$") as ended:
        review(f"bob:{OTHER}\n")
    assert ended.value.detail == "users_file of this server no longer has the user 'alice'; ask its operator"


async def test_a_file_that_changes_is_read_again(path: Path, logged: list[EventDict]) -> None:
    found = UsersFile(path)
    assert await found.authenticate(Credentials("alice", "secret")) == Identity("alice")
    passwords.write_user(path, "alice", OTHER)
    passwords.write_user(path, "carol", SECRET)
    assert await found.authenticate(Credentials("alice", "secret")) is None, "not even from memory"
    assert await found.authenticate(Credentials("carol", "secret")) == Identity("carol")
    assert [line["event"] for line in logged] == ["users_file read again"]


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


class TestSlowThreads:
    async def test_they_have_a_lower_priority(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours = niceness()
        assert await SlowThreads(1).run(niceness) == min(ours + NICENESS, 19)
        assert niceness() == await trio.to_thread.run_sync(niceness) == ours
        with pytest.raises(ValueError, match="invalid literal"):
            await SlowThreads(1).run(int, "x")

        def refuse(which: int, who: int, priority: int) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "setpriority", refuse)  # as some systems do
        assert await SlowThreads(1).run(sum, [1, 2]) == 3

    def test_a_cancelled_call_leaves_the_queue_and_a_loop_may_end_before_the_thread(self) -> None:
        threads, begun, release = SlowThreads(1), [], threading.Event()

        def work(number: int) -> None:
            begun.append(number)
            release.wait(10)

        async def leave() -> None:
            async with trio.open_nursery() as nursery:
                for number in (1, 2):
                    nursery.start_soon(threads.run, work, number)
                    await wait_all_tasks_blocked()
                await until(lambda: begun)
                nursery.cancel_scope.cancel()

        trio.run(leave)
        release.set()
        assert trio.run(threads.run, sum, [1, 2]) == 3, "the thread lives on"
        assert begun == [1]


class TestSettings:
    async def test_none(self, path: Path) -> None:
        found = auth.for_settings(load(users_file=None))
        assert isinstance(found, Anonymous)
        for login, passcode, user in ((None, None, "anonymous"), ("", "x", "anonymous"), ("alice", None, "alice")):
            assert await found.authenticate(Credentials(login, passcode)) == Identity(user, method="anonymous")
        write(path, "alice:secret\n")
        with pytest.raises(SettingsError, match=r"^users_file \(GATEWAY_USERS_FILE\) is wrong: line 1 of .* argon2"):
            auth.for_settings(load(users_file=path))

    async def test_each_setting_is_an_authenticator(self, tmp_path: Path, autojump_clock: MockClock) -> None:
        write(tmp_path / "file", "0123456789abcdef0123456789abcdef")
        for name in ("jwt_keys", "cookie_keys", "authenticator"):
            value: Any = "tests.auth.operators:plain" if name == "authenticator" else tmp_path / "file"
            settings = load(**{name: value})
            assert not settings.anonymous
            with pytest.raises(LoginRefused):
                await auth.for_settings(settings).authenticate(Credentials("alice", "x"))
        settings = load(tls_client_ca=tmp_path / "file")
        certificate = Credentials(certificate=Certificate("CN=alice", "alice"))
        found = await auth.for_settings(settings).authenticate(certificate)
        assert found == Identity("alice", method="certificate")
        assert load(tls_client_ca=tmp_path / "file", tls_user="none").anonymous

    async def test_limits(self, path: Path, autojump_clock: MockClock) -> None:
        found = auth.for_settings(load(users_file=path, login_attempts=1, login_delay=3, ticket_lifetime=7))
        assert found.tickets is not None
        assert found.tickets.lifetime == 7
        with pytest.raises(LoginRefused, match="login refused"):
            await found.authenticate(Credentials("alice", "wrong"))
        assert trio.current_time() == 3
        with pytest.raises(LoginRefused, match="too many failed logins"):
            await found.authenticate(Credentials("alice", "secret"))
