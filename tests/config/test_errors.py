"""Mistakes in settings: each names the place where it stands, and what could be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.errors import Sources, wrong
from gateway.config.settings import SettingsError, load
from gateway.config.toml_file import read


def write(text: str) -> None:
    Path("gateway.toml").write_text(text)


def refused() -> str:
    with pytest.raises(SettingsError) as refusal:
        load()
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


NO_TABLE = "settings stand outside of tables: write them above the first [header]"
ALL = "`gateway check-config --list` names them all"


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("tcpp = 1", "there is no setting 'tcpp'; did you mean tcp?"),
            ("colour = 1", f"there is no setting 'colour'; {ALL}"),
            ("_env_file = 'x'", "there is no setting '_env_file'; did you mean users_file?"),
            ("[polcy]", "there is no setting 'polcy'; did you mean policy?"),
            ("[server]\ntcp = []", f"there is no setting 'server'; {NO_TABLE}"),
            ("max_attempts = 5", "max_attempts belongs in a [[policy]]: it is a key of policies and no setting"),
        ],
    )
    def test_in_the_file(self, text: str, sentence: str) -> None:
        write(f"max_headers = 20\n\n{text}\n")
        assert refused() == f"gateway.toml line 3: {sentence}"

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("TCPP", "there is no setting GATEWAY_TCPP; did you mean GATEWAY_TCP?"),
            ("COLOUR", f"there is no setting GATEWAY_COLOUR; {ALL}"),
            *(
                (name, f"GATEWAY_{name} is no variable; write {kinds} as [[{kind}]] tables into gateway.toml")
                for kind, kinds, names in (
                    ("policy", "policies", ("POLICY", "MATCH", "MAX_ATTEMPTS")),
                    ("rule", "rules", ("RULE", "DESTINATION", "DENY")),
                )
                for name in names
            ),
        ],
    )
    def test_of_variables(self, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str) -> None:
        monkeypatch.setenv(f"GATEWAY_{name}", "1")
        assert refused() == sentence


class TestPlaces:
    def test_of_the_file_and_of_a_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("\nmax_headers = 1")
        place = "gateway.toml line 2: max_headers is wrong: "
        assert refused() == f"{place}input should be greater than or equal to 10, not 1"
        monkeypatch.setenv("GATEWAY_MAX_HEADERS", "50")
        assert load().max_headers == 50, "the file's value does not count"
        write("max_headers = 50")
        for name in ("GATEWAY_MAX_HEADERS", "gateway_max_headers"):
            monkeypatch.delenv("GATEWAY_MAX_HEADERS", raising=False)
            monkeypatch.setenv(name, "1")
            assert refused().startswith("max_headers (GATEWAY_MAX_HEADERS) is wrong: input should be greater than")

    def test_of_each_source(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("max_headers = 50\nmax_body = 5000\ntcp = []")
        monkeypatch.setenv("GATEWAY_MAX_BODY", "6000")
        sources = Sources(read(), {"tcp"})
        names = ("max_headers", "max_body", "tcp", "http")
        assert [sources.of(name) for name in names] == [
            "gateway.toml line 1",
            "GATEWAY_MAX_BODY",
            "argument",
            "default",
        ]
        assert [name for name in names if sources.is_in_file(name)] == ["max_headers"]


def test_a_value_that_turns_out_to_be_wrong_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = "handlers (GATEWAY_HANDLERS) is wrong: no"
    assert wrong("handlers", "no") == elsewhere
    write("\n\nhandlers = 'a:b'")
    assert wrong("handlers", ValueError("no")) == "gateway.toml line 3: handlers is wrong: no"
    write("handlers = ")  # it is broken by now
    assert wrong("handlers", "no") == elsewhere
    write("handlers = 'a:b'")
    monkeypatch.setenv("GATEWAY_HANDLERS", "c:d")
    assert wrong("handlers", "no") == elsewhere
