"""Other rules are in force at once, for whoever is there; wrong ones never are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.auth import rules as module
from gateway.auth.rules import Rules
from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.identity import Identity
from gateway.config.rules import Table, read_tables
from gateway.config.settings import SettingsError

from .test_rules import access, rule

SEND, SUBSCRIBE = Action.SEND, Action.SUBSCRIBE


class TestReload:
    def read(self, *tables: dict[str, Any]) -> tuple[Table, ...]:
        return read_tables(list(tables))

    def test_others_are_in_force_at_once(self) -> None:
        tables = [self.read(rule("/queue/a", "send"))]
        found = Rules(self.read(rule("**", "send", "subscribe")), lambda: tables[0])
        changes: list[str] = []
        found.on_change = lambda: changes.append("changed")
        granted = access(found)
        assert granted.may(SEND, "/queue/b")
        assert granted.may(SUBSCRIBE, "/queue/b")
        assert granted.reach("/topic/#") is Coverage.ALL
        granted.sendable.add("/queue/b")
        granted.answerable.add("/queue/b")
        assert found.reload() is None
        assert changes == ["changed"]
        assert not granted.sendable
        assert not granted.answerable
        assert granted.reach("/topic/#") is Coverage.NONE
        assert not granted.may(SUBSCRIBE, "/queue/b")
        assert [granted.may(SEND, name) for name in ("/queue/a", "/queue/b")] == [True, False]
        assert access(found).standing is granted.standing

    def test_other_networks_sort_anew(self) -> None:
        """Those who were the same to the rules are no longer, whoever of them is asked first."""
        tables = self.read(
            rule("/queue/a", deny=["send"], addresses=["10.0.0.1"]),
            rule("/queue/b", "subscribe", addresses=["10.0.0.0/8"]),
            rule("/queue/a", "send"),
        )
        found = Rules(self.read(rule("**", "send", "subscribe")), lambda: tables)
        one, two, nobody = access(found, address="10.0.0.1"), access(found, address="10.0.0.2"), access(found)
        assert one.standing is two.standing is nobody.standing
        for each in (one, two, nobody):
            assert each.may(SEND, "/queue/a")
            each.sendable.add("/queue/a")
        assert found.reload() is None
        assert not any(each.sendable or each.answerable for each in (one, two, nobody))
        assert [each.may(SEND, "/queue/a") for each in (two, one, nobody)] == [True, False, True]
        assert [each.may(SUBSCRIBE, "/queue/b") for each in (two, one, nobody)] == [True, True, False]
        two.sendable.add("/queue/a")
        assert not one.sendable
        assert [each.reason(SEND, "/queue/a")[:6] for each in (one, two)] == ["rule 1", "rule 3"]
        assert found.reload() is None
        assert not two.sendable
        assert access(found, address="10.7.7.7").standing is two.standing, "the same networks, so nothing was sorted"

    @pytest.mark.parametrize("ask", ["reach", "reason", "options"])
    def test_whatever_is_asked_first(self, ask: str) -> None:
        tables = self.read(rule("/topic/a.**", "subscribe", addresses=["10.0.0.0/8"]))
        found = Rules(self.read(rule("**", "send")), lambda: tables)
        granted = access(found, address="10.0.0.1")
        assert found.reload() is None
        said = {
            "reach": lambda: granted.reach("/topic/a.*") is Coverage.ALL,
            "reason": lambda: granted.reason(SUBSCRIBE, "/topic/a.b") == "rule 1 allows it",
            "options": lambda: granted.options() == ["--address=10.0.0.1"],
        }
        assert said[ask]()

    def test_of_users_whose_sessions_are_all_that_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_MOST_RECENT", 1)
        found = Rules(self.read(rule("**", "send")), lambda: self.read(rule("**", "admin")))
        first = access(found, "a")
        assert first.may(SEND, "/queue/a")
        access(found, "b")
        assert found.reload() is None
        assert not first.may(SEND, "/queue/a")

    def test_wrong_ones_change_nothing(self) -> None:
        def read() -> tuple[Table, ...]:
            raise SettingsError("gateway.toml line 1: wrong")

        found = Rules(self.read(rule("/queue/a", "send")), read)
        found.on_change = lambda: pytest.fail("nothing changed")
        assert found.reload() == "gateway.toml line 1: wrong"
        assert access(found).may(SEND, "/queue/a")

    def test_none_any_more(self) -> None:
        found = Rules(self.read(rule("/queue/a", "send")), lambda: ())
        assert str(found.reload()).startswith("there is no [[rule]] any more, and without any everybody may do")
        assert not access(found).may(SEND, "/queue/b")

    def test_the_file_is_gone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        found = Rules(self.read(rule("/queue/a", "send")), lambda: ())
        assert str(found.reload()).endswith("; restart if that is meant; gateway.toml is gone")
        (tmp_path / "gateway.toml").touch()
        assert str(found.reload()).endswith("; restart if that is meant")

    def test_the_first(self) -> None:
        found = Rules((), lambda: self.read(rule("/queue/a", "send")))
        assert str(found.reload()).startswith("there were no rules, and the first [[rule]] tables need a restart")
        assert found.access_of(Identity("alice"), "tcp", "") is None

    def test_none_before_and_after(self) -> None:
        found = Rules((), lambda: ())
        assert found.reload() is None
