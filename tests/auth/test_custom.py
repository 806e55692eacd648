"""The operator's own authenticator."""

from __future__ import annotations

import base64
import threading
from pathlib import Path

import pytest
import trio
from structlog.typing import EventDict

from gateway.auth import custom
from gateway.auth.custom import CustomAuthenticator, load
from gateway.auth.failed_logins import FailedLogins, TooManyFailedLogins
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity, Upgrade
from gateway.config.settings import SettingsError


async def ask(name: str, passcode: str | None = "name", **more: object) -> Identity | None:
    found = CustomAuthenticator(load(f"tests.auth.operators:{name}"))
    return await found.identify(Credentials("alice", passcode, **more))  # type: ignore[arg-type]


class TestAnswers:
    @pytest.mark.parametrize("name", ["waiting", "plain"])
    async def test_functions(self, name: str) -> None:
        assert await ask(name) == Identity("alice", method="custom")
        assert await ask(name, "identity") == Identity("alice", frozenset({"ops"}), 5e9, "ldap")
        assert await ask(name, "other") is None
        assert await ask("asked") == Identity("object", method="custom")
        with pytest.raises(LoginRefused) as error:
            await ask("refusing")
        assert error.value.detail == "the account is closed"
        for groups in ({"ops"}, ["ops"], {"ops": 1}):
            found = await CustomAuthenticator(lambda _: Identity("alice", groups)).identify(Credentials())  # type: ignore[arg-type]  # noqa: B023
            assert found == Identity("alice", frozenset({"ops"}))
            assert hash(found)

    @pytest.mark.parametrize(
        ("found", "reason"),
        [
            (Identity("alice", "ops"), "groups that are a str, and should be a set of names"),  # type: ignore[arg-type]
            (Identity("alice", None), "groups that are a NoneType, and should be a set of names"),  # type: ignore[arg-type]
            (Identity("alice", frozenset({5})), "groups that are no names"),  # type: ignore[arg-type]
            (Identity("alice", expires="1"), "expires that is a str, and should be seconds since the epoch"),  # type: ignore[arg-type]
            (Identity("alice", expires=True), "expires that is a bool, and should be seconds since the epoch"),
            (Identity(5), "no user's name"),  # type: ignore[arg-type]
            (5, "a int"),
            ("", "no user's name"),
            (Identity(""), "no user's name"),
        ],
    )
    async def test_nonsense(self, found: object, reason: str, logged: list[EventDict]) -> None:
        assert await CustomAuthenticator(lambda _: found).identify(Credentials()) is None
        assert [line["reason"] for line in logged] == [reason]


class TestErrors:
    async def test_refuse_and_are_logged_without_secrets(self, logged: list[EventDict]) -> None:
        upgrade = Upgrade("Basic c2VjcmV0LWI=", "session=secret-c; x=1", "secret-d", "http://x")
        assert await ask("raising", "secret-a", authorization="Bearer secret-e", upgrade=upgrade) is None
        assert len(logged) == 1
        assert "secret" not in str(logged)
        assert "c2VjcmV0LWI" not in str(logged)
        assert logged[0]["reason"].startswith("RuntimeError: cannot ask about ['(hidden)', '(hidden)']")
        assert "operators.py line " in logged[0]["reason"]
        assert await ask("raising", "a") is None
        assert "cannot ask about ['a', '']" in logged[1]["reason"], "so short a secret would blot out the rest"
        assert await ask("lazy") is None
        assert "appears to be asynchronous" in logged[2]["reason"]

    async def test_nor_parts_of_secrets(self, logged: list[EventDict]) -> None:
        """The passcode of Basic, and the value of a cookie."""

        def look_up(credentials: Credentials) -> None:
            raise KeyError("secret-b", "secret-c", "secret-d", "secret-e")

        basic = base64.b64encode(b"alice:secret-b").decode()
        upgrade = Upgrade(f"Basic {basic}", 'theme=dark; session=secret-c; other="x secret-d"; last=secret-e')
        assert await CustomAuthenticator(look_up).identify(Credentials(upgrade=upgrade)) is None
        assert logged[0]["reason"].startswith("KeyError: ('(hidden)', '(hidden)', ")
        assert "secret" not in str(logged)


async def test_guesses_of_an_address_that_failed_too_often_are_not_checked() -> None:
    asked, refused, failures = 0, 0, FailedLogins(10)

    async def call(credentials: Credentials) -> None:
        nonlocal asked
        asked += 1
        await trio.lowlevel.checkpoint()
        failures.count(credentials.address)

    found = CustomAuthenticator(call, failures)

    async def guess(address: str) -> None:
        nonlocal refused
        try:
            await found.identify(Credentials("alice", "x", address=address))
        except TooManyFailedLogins:
            refused += 1

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(guess, "192.0.2.1")
        nursery.start_soon(guess, "192.0.2.2")
    assert asked <= 10 + custom.THREADS + 1
    assert refused == 201 - asked


async def test_plain_functions_run_in_a_few_threads_and_can_be_cancelled() -> None:
    both, most, running, release = threading.Barrier(2, timeout=10), 0, 0, threading.Event()
    lock = threading.Lock()

    def call(credentials: Credentials) -> None:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        both.wait()
        with lock:
            running -= 1

    found = CustomAuthenticator(call, threads=2)
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(found.identify, Credentials())
    assert most == 2
    with trio.move_on_after(0.05) as scope:
        await CustomAuthenticator(lambda credentials: release.wait(10)).identify(Credentials())  # type: ignore[arg-type,return-value]
    release.set()
    assert scope.cancelled_caught


class TestLoading:
    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("tests.auth.nowhere:x", "cannot import tests.auth.nowhere: ModuleNotFoundError"),
            ("tests.auth.operators:x", "there is no x in tests.auth.operators, and it should be a function"),
            ("tests.auth.operators:word", "word is a str in tests.auth.operators, and it should be a function"),
            ("tests.auth.operators:of_two", "of_two of tests.auth.operators is called with one argument"),
        ],
    )
    def test_what_is_wrong(self, text: str, sentence: str) -> None:
        with pytest.raises(SettingsError) as error:
            load(text)
        assert str(error.value).startswith(f"authenticator (GATEWAY_AUTHENTICATOR) is wrong: {sentence}")

    def test_a_file_in_the_working_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "doorkeeper.py").write_text("def ask(credentials):\n    return 'x'\n")
        (tmp_path / "broken_keeper.py").write_text("\n\n1 / 0\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.path", ["/nowhere"])
        assert load("doorkeeper:ask")(Credentials()) == "x"
        with pytest.raises(SettingsError, match=r"ZeroDivisionError: .* \(.*broken_keeper.py line 3\)$"):
            load("broken_keeper:ask")
