"""What a reload takes of the settings, what it leaves for a restart, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.auth import for_settings
from gateway.auth.passwords import hash_passcode
from gateway.config import errors
from gateway.config.settings import PLACES, Settings, load
from gateway.runtime.listeners import read_certificates
from gateway.runtime.reload import RELOADED, InForce, Reading, Reloadable, reload_all
from tests.transports import tls_files

# Another value than the default of each that a reload takes.
CHANGED: dict[str, Any] = {
    "admin_token": "sesame",
    "allowed_origins": ["https://app.example.org"],
    "log_level": "debug",
    "metrics_token": "another-sesame",
    "trusted_proxies": ["127.0.0.1"],
}
# Those whose files are read again; others that are paths are folders.
FILES = {name for name in PLACES if not name.startswith(("cluster_", "edge_"))} - {"journal", "archive", "tables"}
RULES = '[[rule]]\ndestination = "#"\nallow = ["send"]\n'
OTHER_RULES = '[[rule]]\ndestination = "/queue/#"\nallow = ["send"]\n'


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those of the test."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(errors.variable(name), raising=False)


def write(text: str) -> None:
    Path("gateway.toml").write_text(text)


def started(text: str) -> InForce:
    """The settings of a gateway that started with that file."""
    write(text)
    return InForce(load(), load)


def reloaded(found: InForce) -> list[Any]:
    with capture_logs() as logs:
        assert found.reload() is None
    return logs


class TestWhatItTakes:
    def test_all_of_them_are_tried(self) -> None:
        assert CHANGED.keys() == {*RELOADED}

    def test_it_is_in_force_at_once(self) -> None:
        for name in RELOADED:
            fresh = load(**{name: CHANGED[name]})
            found = InForce(load(), lambda fresh=fresh: fresh)  # type: ignore[misc]
            told: list[Settings] = []
            found.on_change.append(told.append)
            logs = reloaded(found)
            assert getattr(found.now, name) == CHANGED[name]
            assert told == [found.now]
            assert logs == [{"event": "settings have changed", "log_level": "info", "settings": name}]

    def test_nothing_new_is_no_news(self) -> None:
        found = started('admin_token = "old"\nmax_body = "1MiB"\n[[policy]]\nmatch = "/queue/a"\nmax_messages = 5\n')
        told: list[Settings] = []
        found.on_change.append(told.append)
        assert reloaded(found) == []
        assert told == []

    def test_other_rules(self) -> None:
        found = started(RULES)
        write(OTHER_RULES)
        assert reloaded(found) == [], "the rules say it themselves"
        assert [table.patterns for table in found.now.rule] == [("/queue/#",)]

    @pytest.mark.parametrize(("before", "behind"), [("", RULES), (RULES, "")])
    def test_rules_that_need_a_restart(self, before: str, behind: str) -> None:
        found = started(before)
        rules = found.now.rule
        write(behind)
        assert reloaded(found) == []
        assert found.now.rule == rules


class TestWhatNeedsARestart:
    def test_it_is_named_and_not_in_force(self) -> None:
        settings = load()
        for name in sorted(Settings.model_fields.keys() - {*RELOADED, "rule"}):
            found = InForce(settings, lambda name=name: settings.model_copy(update={name: "another"}))  # type: ignore[misc]
            found.on_change.append(lambda _: pytest.fail("no such setting is in force"))
            (entry,) = reloaded(found)
            event = "settings have changed that need a restart"
            assert entry == {"event": event, "log_level": "warning", "settings": name}
            assert getattr(found.now, name) == getattr(settings, name)

    def test_it_is_said_until_then(self) -> None:
        found = started('max_body = "1MiB"')
        write('max_body = "2MiB"\nlog_level = "debug"\ntcp = "127.0.0.1:1"')
        first, second = reloaded(found)
        assert (first["settings"], second["settings"]) == ("log_level", "tcp, max_body")
        (again,) = reloaded(found)
        assert again == second
        write('max_body = "1MiB"\nlog_level = "debug"')
        assert reloaded(found) == []


OTHERS = 'admin_groups = ["ops"]\nusers_file = "users.txt"\n'
LOST_TOKEN = "admin_token is not set any more, and without it every program on this machine may use the admin API"

UNFIT = (
    "beside what needs a restart, settings do not fit together: cookie_keys needs a list of origins, or any page could "
    "use the cookie of the user who opens it; allowed_origins is ['*'] (gateway.toml line 2)"
)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("", 'admin_token = "new"\nmax_body = "1 elephant"', "gateway.toml line 2: max_body is wrong"),
        ("", 'admin_token = "new"\nadmin_tokn = "x"', "gateway.toml line 2: there is no setting 'admin_tokn'"),
        ("", 'admin_token = "new', "gateway.toml line 1: the string is not closed"),
        (OTHERS, None, "gateway.toml is gone, and the settings in it with it; restart if that is meant"),
        ('metrics_token = "x"', 'metrics_token = "x"', f"{LOST_TOKEN}; restart if that is meant"),
        ("", OTHERS, LOST_TOKEN),  # they do not help before the restart
        (
            'cookie_keys = "secrets"',
            'admin_token = "old"\nallowed_origins = "*"',
            (UNFIT),
        ),
    ],
)
def test_what_changes_nothing(before: str, after: str | None, sentence: str) -> None:
    found = started(f'admin_token = "old"\n{before}')
    settings = found.now
    found.on_change.append(lambda _: pytest.fail("nothing has changed"))
    if after is None:
        Path("gateway.toml").unlink()
    else:
        write(after)
    with capture_logs() as logs:
        assert (found.reload() or "").startswith(sentence)
    assert logs == []
    assert found.now is settings


def test_a_token_may_go_where_groups_have_access() -> None:
    found = started(f'{OTHERS}admin_token = "old"')
    write(OTHERS)
    assert reloaded(found)[0]["settings"] == "admin_token"
    assert found.now.admin_token == ""


class TestPage:
    """The list of docs/operations.md says the same as the code."""

    @pytest.fixture
    def rows(self) -> list[list[str]]:
        page = (Path(__file__).parent.parent.parent / "docs" / "operations.md").read_text()
        listed = page.partition("### Settings that a reload applies\n")[2].partition("\n\nEach")[0]
        rows = re.findall(r"^\* (.*?):", listed, re.MULTILINE)
        assert rows[-1] == "every other one, and another file for those above"
        return [re.findall(r"`(\w+)`", row) for row in rows[:-1]]

    def test_settings(self, rows: list[list[str]]) -> None:
        named = [name for row in rows for name in row]
        assert len(named) == len({*named})
        files = {name for name in named if Settings.model_fields[name].annotation == Path | None}
        assert {*named} - files == {*RELOADED, "rule"}
        assert files == FILES

    @pytest.mark.parametrize("name", sorted(FILES))
    def test_files(self, name: str) -> None:
        tls_files.write(Path())
        Path("users").write_text(f"alice:{hash_passcode('x')}\n")
        for file in ("jwt", "cookies"):
            Path(file).write_text("a-secret-of-thirty-two-octets-or-more")
        settings = Settings(
            tcp_tls=["127.0.0.1:0"],
            tls_certificate="server.pem",
            tls_key="server.key",
            tls_client_ca="server.pem",
            users_file="users",
            jwt_keys="jwt",
            cookie_keys="cookies",
        )
        certificates, entrance = read_certificates(settings), for_settings(settings)
        assert isinstance(certificates, Reloadable)
        assert isinstance(entrance, Reloadable)
        assert (certificates.reload(), entrance.reload()) == (None, None)
        getattr(settings, name).write_text("nothing")
        faults = certificates.reload(), entrance.reload()
        assert faults.count(None) == 1


class Thing:
    def __init__(self, name: str, fault: str | None = None) -> None:
        self.name = name
        self._fault = fault

    def reload(self) -> str | None:
        if self._fault == "raise":
            raise RuntimeError("a fault of ours")
        return self._fault


def test_each_stands_for_itself() -> None:
    things = [Thing("a", "the file is wrong"), Thing("b"), Thing("c", "raise"), Thing("d", "the file is wrong")]
    with capture_logs() as logs:
        reload_all(things)
    assert [entry["event"] for entry in logs] == [
        "a reload failed",
        "reloaded",
        "what was in force stays after a reload",
        "what was in force stays after a reload",
    ]
    assert (logs[1]["log_level"], logs[1]["what"], logs[1]["kept"]) == ("warning", "b", ["a", "c", "d"])
    assert (logs[2]["what"], logs[2]["reason"]) == ("a, d", "the file is wrong"), "said once"
    assert logs[3]["what"] == "c"


class TestReading:
    """One reload reads the settings once, whoever asks."""

    def test_all_who_ask_have_the_same(self) -> None:
        write("max_headers = 20\n")
        reading = Reading(load)
        first = reading()
        write("max_headers = 30\n")
        assert reading() is first
        reading.forget()
        assert reading().max_headers == 30
