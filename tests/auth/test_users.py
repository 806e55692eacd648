"""Authenticators: who is let in, and that slow hashing holds up nobody else."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from structlog.typing import EventDict
from trio.testing import MockClock

from gateway import auth
from gateway.auth import passwords, users
from gateway.auth.authenticator import Anonymous, RateLimited
from gateway.auth.failed_logins import PLACES, FailedLogins, TooManyFailedLogins
from gateway.auth.users import UsersFile
from gateway.broker.errors import LoginRefused, SessionEnded
from gateway.broker.model.identity import Certificate, Credentials, Identity
from gateway.config.settings import SettingsError, load

SECRET = passwords.hash_passcode("secret")
OTHER = passwords.hash_passcode("other")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "users.txt"
    path.write_text(f"alice:{SECRET}\nbob:{OTHER}\n")
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


class Verifications:
    """Counts, and stands in for, the slow part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str]] = []
        monkeypatch.setattr(passwords, "verify", self._verify)

    def _verify(self, hashed: str, passcode: str) -> bool:
        self.asked.append((hashed, passcode))
        return (hashed, passcode) in {(SECRET, "secret"), (OTHER, "other")}


class TestUsersFile:
    @pytest.mark.parametrize(
        ("login", "passcode", "user"),
        [
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
        ],
    )
    async def test_who_is_let_in(self, path: Path, login: str | None, passcode: str | None, user: str | None) -> None:
        found = await UsersFile(path).authenticate(Credentials(login, passcode))
        assert found == (None if user is None else Identity(user))

    async def test_what_is_too_long_is_not_hashed(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        verifications = Verifications(monkeypatch)
        assert await UsersFile(path).authenticate(Credentials("alice", "x" * 1025)) is None
        assert await UsersFile(path).authenticate(Credentials("x" * 1025, "secret")) is None
        assert verifications.asked == []

    async def test_an_unknown_user_costs_a_verification_too(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        verifications = Verifications(monkeypatch)
        # The passcode of the hash that is taken instead: right, and still no entrance.
        assert await UsersFile(path).authenticate(Credentials("carol", "secret")) is None
        assert verifications.asked == [(SECRET, "secret")]

    async def test_nobody_in_the_file(self, path: Path) -> None:
        write(path, "# nobody\n")
        assert await UsersFile(path).authenticate(Credentials("alice", "secret")) is None

    async def test_who_comes_back_is_counted(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        verifications = Verifications(monkeypatch)
        authenticator = UsersFile(path)
        for _ in range(3):
            assert await authenticator.authenticate(Credentials("alice", "secret")) == Identity("alice")
        assert len(verifications.asked) == 1
        assert await authenticator.authenticate(Credentials("alice", "other")) is None
        assert await authenticator.authenticate(Credentials("alic", "esecret")) is None
        assert len(verifications.asked) == 3

    async def test_memory_of_the_counted_is_bounded(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        verifications = Verifications(monkeypatch)
        authenticator = UsersFile(path, max_remembered=1)
        for login, passcode in [("alice", "secret"), ("bob", "other"), ("alice", "secret")]:
            assert await authenticator.authenticate(Credentials(login, passcode)) == Identity(login)
        assert len(verifications.asked) == 3

    async def test_two_verifications_at_a_time(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        running, most = 0, 0
        both = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def verify(hashed: str, passcode: str) -> bool:
            return bool(trio.from_thread.run(wait, passcode, trio_token=token))

        async def wait(passcode: str) -> bool:
            nonlocal running, most
            running += 1
            most = max(most, running)
            if running == 2:
                both.set()
            await both.wait()
            running -= 1
            return True

        monkeypatch.setattr(passwords, "verify", verify)
        authenticator = UsersFile(path)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(authenticator.authenticate, Credentials("alice", f"guess {number}"))
        assert most == 2

    async def test_who_hangs_up_does_not_wait_for_the_hash(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        begun, release, ended = trio.Event(), trio.Event(), trio.Event()
        token = trio.lowlevel.current_trio_token()

        def verify(hashed: str, passcode: str) -> bool:
            trio.from_thread.run_sync(begun.set, trio_token=token)
            trio.from_thread.run(release.wait, trio_token=token)
            trio.from_thread.run_sync(ended.set, trio_token=token)
            return True

        monkeypatch.setattr(passwords, "verify", verify)
        authenticator = UsersFile(path)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(authenticator.authenticate, Credentials("alice", "secret"))
                await begun.wait()
                nursery.cancel_scope.cancel()
            release.set()
            await ended.wait()  # the thread hashed on


class TestFlood:
    async def test_who_waits_in_line_is_refused_when_the_address_has_failed_too_often(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        verifications = Verifications(monkeypatch)
        failures = FailedLogins(6)
        guard = RateLimited(_Entrance(UsersFile(path, failures)), failures, 0.0)
        refusals: list[str] = []

        async def guess(number: int) -> None:
            try:
                await guard.authenticate(Credentials("alice", f"guess {number}", address="192.0.2.1"))
            except LoginRefused as error:
                refusals.append(str(error))

        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(guess, number)
        assert len(refusals) == 500
        # Those who had a place already when the last failure was counted were still heard.
        assert 6 <= len(verifications.asked) <= 6 + PLACES
        assert refusals.count("login refused") == len(verifications.asked)

    async def test_nor_is_who_is_remembered_heard(self, path: Path) -> None:
        """What costs no hash could be guessed a thousand times a second."""
        failures = FailedLogins(1)
        authenticator = UsersFile(path, failures)
        shown = Credentials("alice", "secret", address="192.0.2.1")
        assert await authenticator.authenticate(shown) == Identity("alice")
        failures.count("192.0.2.1")
        with pytest.raises(TooManyFailedLogins):
            await authenticator.authenticate(shown)

    async def test_others_wait_behind_a_few_of_them_only(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        order: list[str] = []

        def verify(hashed: str, passcode: str) -> bool:
            order.append(passcode)
            return passcode == "secret"

        monkeypatch.setattr(passwords, "verify", verify)
        found = UsersFile(path)
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(found.authenticate, Credentials("alice", f"guess {number}", address="192.0.2.1"))
            await wait_all_tasks_queued(found)
            assert await found.authenticate(Credentials("alice", "secret", address="192.0.2.2")) == Identity("alice")
        assert order.index("secret") <= 2 * PLACES + users.THREADS
        assert len(order) == 101


async def wait_all_tasks_queued(found: UsersFile) -> None:
    """All who guess stand in line."""
    while sum(line.length for line in found._queue._queues.values()) < 50:
        await trio.lowlevel.checkpoint()


class _Entrance:
    """A users file alone behind the guard."""

    name = "users"
    tickets = None

    def __init__(self, found: UsersFile) -> None:
        self.authenticate = found.authenticate

    def reload(self) -> str | None:
        return None


class TestReview:
    """Who was let in is asked again when the file has been read again."""

    @staticmethod
    async def let_in(found: UsersFile, login: str = "alice", passcode: str = "secret") -> Identity:
        identity = await found.authenticate(Credentials(login, passcode))
        assert identity is not None
        assert identity.review is not None
        assert SECRET not in repr(identity)
        return identity

    @staticmethod
    def review(identity: Identity) -> Identity:
        assert identity.review is not None
        return identity.review(identity)

    async def test_nothing_has_changed(self, path: Path) -> None:
        found = UsersFile(path)
        for identity in (await self.let_in(found), await self.let_in(found)):  # verified, and remembered
            assert self.review(identity) is identity
            write(path, f"# new\nalice:{SECRET}\n")
            assert found.file.reload() is None
            assert self.review(identity) is identity

    async def test_gone(self, path: Path) -> None:
        found = UsersFile(path)
        identities = [await self.let_in(found), await self.let_in(found)]
        write(path, f"bob:{OTHER}\n")
        assert self.review(identities[0]) is identities[0], "not before it is read"
        found.file.reload()
        for identity in identities:
            with pytest.raises(SessionEnded, match=r"^user removed$") as ended:
                self.review(identity)
            assert ended.value.detail == "users_file of this server no longer has the user 'alice'; ask its operator"

    async def test_another_passcode(self, path: Path) -> None:
        """The same one, hashed anew, is another one as far as anybody can tell."""
        found = UsersFile(path)
        identity = await self.let_in(found)
        passwords.write_user(path, "alice", passwords.hash_passcode("secret"))
        found.file.reload()
        with pytest.raises(SessionEnded, match=r"^passcode changed$"):
            self.review(identity)
        again = await self.let_in(found)
        assert self.review(again) is again

    async def test_other_groups(self, path: Path) -> None:
        found = UsersFile(path)
        identity = await self.let_in(found)
        write(path, f"alice:{SECRET}:ops,traders\n")
        found.file.reload()
        now = self.review(replace(identity, method="ticket"))
        assert now == Identity("alice", frozenset({"ops", "traders"}), method="ticket")
        write(path, f"bob:{OTHER}\n")
        found.file.reload()
        with pytest.raises(SessionEnded):
            self.review(now)

    async def test_a_damaged_file_changes_nobody(self, path: Path) -> None:
        found = UsersFile(path)
        identity = await self.let_in(found)
        write(path, "alice\n")
        assert found.file.reload() is not None
        assert self.review(identity) is identity


class TestChangesOfTheFile:
    async def test_read_again(self, path: Path, logged: list[EventDict]) -> None:
        authenticator = UsersFile(path)
        assert await authenticator.authenticate(Credentials("alice", "secret")) == Identity("alice")
        passwords.write_user(path, "alice", OTHER)
        passwords.write_user(path, "carol", SECRET)
        assert await authenticator.authenticate(Credentials("alice", "secret")) is None, "not even from memory"
        assert await authenticator.authenticate(Credentials("alice", "other")) == Identity("alice")
        assert await authenticator.authenticate(Credentials("carol", "secret")) == Identity("carol")
        assert [line["event"] for line in logged] == ["users_file read again"]

    @pytest.mark.parametrize("damage", ["nonsense\n", None], ids=["damaged", "removed"])
    async def test_the_last_good_one_stays(self, path: Path, damage: str | None, logged: list[EventDict]) -> None:
        authenticator = UsersFile(path)
        if damage is None:
            os.unlink(path)
        else:
            write(path, damage)
        for _ in range(2):
            assert await authenticator.authenticate(Credentials("alice", "secret")) == Identity("alice")
        assert [line["log_level"] for line in logged] == ["error"], "said once"
        assert str(path) in logged[0]["reason"]
        write(path, f"dave:{SECRET}\n")
        os.utime(path, ns=(1, 1))
        assert await authenticator.authenticate(Credentials("dave", "secret")) == Identity("dave")

    async def test_nothing_logged_holds_a_passcode(self, path: Path, logged: list[EventDict]) -> None:
        authenticator = UsersFile(path)
        await authenticator.authenticate(Credentials("alice", "secret"))
        write(path, "alice:secret\n")
        await authenticator.authenticate(Credentials("alice", "secret"))
        assert logged
        assert "secret" not in str(logged)


class TestChoice:
    async def test_no_users_file(self) -> None:
        authenticator = auth.for_settings(load(users_file=None))
        assert isinstance(authenticator, Anonymous)
        assert await authenticator.authenticate(Credentials(None, None)) == Identity("anonymous", method="anonymous")
        assert await authenticator.authenticate(Credentials("", "x")) == Identity("anonymous", method="anonymous")
        assert await authenticator.authenticate(Credentials("alice", None)) == Identity("alice", method="anonymous")

    async def test_users_file(self, path: Path) -> None:
        authenticator = auth.for_settings(load(users_file=path))
        assert authenticator.tickets is not None
        assert await authenticator.authenticate(Credentials("alice", "secret")) == Identity("alice")
        assert authenticator.reload() is None

    async def test_each_setting_is_an_authenticator(self, tmp_path: Path, autojump_clock: MockClock) -> None:
        (tmp_path / "file").write_text("0123456789abcdef0123456789abcdef")
        for name in ("jwt_keys", "cookie_keys", "authenticator"):
            value = "tests.auth.operators:plain" if name == "authenticator" else tmp_path / "file"
            settings = load(**{name: value})
            assert not settings.anonymous
            with pytest.raises(LoginRefused):
                await auth.for_settings(settings).authenticate(Credentials("alice", "x"))
        settings = load(tls_client_ca=tmp_path / "file")
        shown = Credentials(certificate=Certificate("CN=alice", "alice"))
        found = await auth.for_settings(settings).authenticate(shown)
        assert found == Identity("alice", method="certificate")
        assert load(tls_client_ca=tmp_path / "file", tls_user="none").anonymous

    async def test_its_limits_come_from_the_settings(self, path: Path, autojump_clock: MockClock) -> None:
        entrance = auth.for_settings(load(users_file=path, login_attempts=1, login_delay=3, ticket_lifetime=7))
        assert entrance.tickets is not None
        assert entrance.tickets.lifetime == 7
        with pytest.raises(LoginRefused, match="login refused"):
            await entrance.authenticate(Credentials("alice", "wrong"))
        assert trio.current_time() == 3
        with pytest.raises(LoginRefused, match="too many failed logins"):
            await entrance.authenticate(Credentials("alice", "secret"))

    async def test_a_damaged_users_file_is_a_wrong_setting(self, path: Path) -> None:
        write(path, "alice:secret\n")
        with pytest.raises(SettingsError, match=r"^users_file \(GATEWAY_USERS_FILE\) is wrong: line 1 of .* argon2"):
            auth.for_settings(load(users_file=path))
