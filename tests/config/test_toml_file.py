"""Names of the release before: settings and policy keys that ended in `_octets`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.model.policy import QueueArguments
from gateway.config import toml_file
from gateway.config.errors import Sources
from gateway.config.settings import SettingsError, load

FILE = """max_transaction_octets = "2MiB"
"max_octets_per_second_per_user"= 7  # of max_octets
[[policy]]
match = "/queue/#"
max_octets = 2048
[[policy]]
match = "/topic/#"
log_octets=4096
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The settings file of the working directory."""
    return tmp_path / "gateway.toml"


def sentence(place: str, old: str, new: str) -> str:
    return f"{place}: {old} is called {new} now, and the next release does not read the old name: rename it"


def warnings() -> list[str]:
    return list(load().old_names)


def test_old_names_in_the_file_mean_the_new_ones(file: Path) -> None:
    file.write_text(FILE)
    settings = load()
    assert settings.max_transaction_bytes == 2 * 1024 * 1024
    assert settings.max_bytes_per_second_per_user == 7
    assert [dict(table.values) for table in settings.policy] == [{"max_bytes": 2048}, {"log_bytes": 4096}]
    assert warnings() == [
        sentence(f"gateway.toml line {line}", old, new)
        for line, old, new in (
            (1, "max_transaction_octets", "max_transaction_bytes"),
            (2, "max_octets_per_second_per_user", "max_bytes_per_second_per_user"),
            (5, "max_octets", "max_bytes"),
            (8, "log_octets", "log_bytes"),
        )
    ]


def test_mistakes_are_told_with_their_line_and_the_new_name(file: Path) -> None:
    for text, sentence in (
        ("lenient = true\nmax_transaction_octets = 1", "line 2: max_transaction_bytes must be"),
        (
            "max_transaction_octets = 4096\nmax_transaction_bytes = 8192",
            "line 2: max_transaction_bytes is set twice, first in line 1",
        ),
    ):
        file.write_text(text)
        with pytest.raises(SettingsError, match=sentence):
            load()
    file.write_text('max_transaction_bytes = 4096\nserver_name = "max_octets"\n')
    assert warnings() == []


def test_an_old_variable_beats_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("max_unacknowledged_bytes = 4096\n")
    monkeypatch.setenv("GATEWAY_MAX_UNACKNOWLEDGED_OCTETS", "8KiB")
    assert load().max_unacknowledged_bytes == 8192
    assert Sources(toml_file.read()).of("max_unacknowledged_bytes") == "GATEWAY_MAX_UNACKNOWLEDGED_OCTETS"
    old, new = "GATEWAY_MAX_UNACKNOWLEDGED_OCTETS", "GATEWAY_MAX_UNACKNOWLEDGED_BYTES"
    assert warnings() == [sentence("the environment", old, new)]
    assert load(max_unacknowledged_bytes=1024).max_unacknowledged_bytes == 1024


def test_the_new_variable_beats_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_MAX_OCTETS_PER_SECOND", "5")
    monkeypatch.setenv("GATEWAY_MAX_BYTES_PER_SECOND", "6")
    assert load().max_bytes_per_second == 6
    assert warnings() == [sentence("the environment", "GATEWAY_MAX_OCTETS_PER_SECOND", "GATEWAY_MAX_BYTES_PER_SECOND")]


def test_a_store_keeps_the_old_key() -> None:
    arguments = QueueArguments(max_bytes=5, auto_delete=True)
    (kept,) = arguments.stored().values()
    assert kept["max_octets"] == 5
    assert QueueArguments.from_store(arguments.stored()) == arguments
    assert QueueArguments.from_store({}) is None
