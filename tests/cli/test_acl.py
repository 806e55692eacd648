"""`gateway acl explain`: what the page shows, the statuses, and what is no question."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.auth.passwords import write_user
from gateway.cli import main

from ..config.test_rules import EXAMPLES, PAGE, write

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$KWo2Nvl1mp9Hmo1WkfRUsBT6lqhpRLOkS7NW1pgYSXU"
SHOWN = re.findall(r"^    \$ gateway (acl explain .*)\n    (.*)$", PAGE, re.MULTILINE)


@pytest.fixture(autouse=True)
def _a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("GATEWAY_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    write(EXAMPLES[0])


def explain(words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main.main, ["acl", "explain", *shlex.split(words)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(("command", "answer"), SHOWN, ids=[row[0] for row in SHOWN])
def test_the_page(command: str, answer: str) -> None:
    assert len(SHOWN) == 3
    status = 3 if "may not" in answer or "a part of" in answer else 0
    assert explain(command.removeprefix("acl explain")) == (status, f"{answer}\n", "")


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        ("alice subscribe /topic/prices.secret.x", 0, "rule 1 (line 1) allows it"),
        ("bob send '/queue/home.bob.a, home.alice.a'", 3, "may not send to '/queue/home.alice.a': no rule allows"),
        ("bob subscribe /topic/prices.gold.#", 0, "may subscribe to all that '/topic/prices.gold.#' matches: rule 3"),
        ("anonymous subscribe /user/queue/a", 0, "may subscribe to '/user/anonymous/queue/a': rule 4"),
        ("bob send /app/x --transport websocket", 0, "rule 5 (line 19) allows it"),
        ("bob presence /topic/prices.gold", 3, "may not see the presence of '/topic/prices.gold': no rule allows it"),
        ("bob subscribe /presence/topic/a", 3, "may not see the presence of '/topic/a': no rule allows it"),
    ],
)
def test_answers(words: str, status: int, answer: str) -> None:
    found, shown, _ = explain(words)
    assert (found, answer in shown) == (status, True), shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("bob send /topic/#", "wildcard in a name: '/topic/#' is for SUBSCRIBE; a SEND must name one destination"),
        ("bob admin /nope/x", "unsupported kind of destination: "),
        ("bob send /session/events", "unsupported kind of destination: '/session/events' is only for SUBSCRIBE: "),
    ],
)
def test_what_no_client_could_say(words: str, sentence: str) -> None:
    status, shown, error = explain(words)
    assert (status, shown) == (1, "")
    assert error.startswith(f"Error: {sentence}")


class TestGroups:
    @pytest.fixture(autouse=True)
    def _users(self, tmp_path: Path) -> None:
        write(f'users_file = "users"\n{EXAMPLES[0]}')
        write_user(tmp_path / "users", "carol", HASH, ["feed"])

    def test_those_of_the_users_file(self) -> None:
        assert explain("carol send /topic/prices.x") == (
            0,
            "carol (feed) over tcp may send to '/topic/prices.x': rule 6 (line 25) allows it\n",
            "",
        )

    def test_those_that_are_named_are_all(self) -> None:
        status, shown, _ = explain("carol send /topic/prices.x --group home")
        assert (status, shown.startswith("carol (home) over tcp may not send")) == (3, True)

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "users").write_text("carol\n")
        status, shown, error = explain("carol subscribe /topic/prices.gold")
        assert (status, shown.startswith("carol over tcp may subscribe")) == (0, True)
        assert error.startswith("The groups of carol are unknown: line 1 of ")
        assert error.endswith("; name them with --group\n")


class TestAddresses:
    @pytest.fixture(autouse=True)
    def _by_address(self) -> None:
        write(EXAMPLES[1])

    def test_one_that_is_named_and_none(self) -> None:
        status, shown, _ = explain("--address 10.1.2.3 --group ops bob admin a")
        assert (status, "bob (ops) over tcp from 10.1.2.3 may administer" in shown) == (0, True)
        status, shown, _ = explain("--group ops bob admin a")
        assert (status, "from no known address may not administer" in shown) == (3, True)

    @pytest.mark.parametrize("text", ["", "10.0.0.0/8"])
    def test_what_is_no_address(self, text: str) -> None:
        status, shown, error = explain(f"--address '{text}' bob send a")
        assert (status, shown) == (2, "")
        assert f"{text!r} is not an address: write 192.0.2.7, 2001:db8::7 or unix" in " ".join(error.split())


def test_json() -> None:
    status, shown, _ = explain("--json --group feed bob subscribe /topic/#")
    assert status == 3
    assert json.loads(shown) == {
        "action": "subscribe",
        "destination": "/topic/#",
        "allowed": "some",
        "rules": [{"number": 2, "line": 6}, {"number": 3, "line": 10}],
        "default": True,
        "text": "bob (feed) over tcp may subscribe to a part of what '/topic/#' matches: rule 2 (line 6) denies it, "
        "rule 3 (line 10) allows it, no rule allows the rest",
    }


def test_without_rules() -> None:
    write("")
    assert explain("bob send /queue/a") == (0, "there are no rules, so every user may do everything\n", "")
