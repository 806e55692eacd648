"""Files of commands: each fault is one sentence with the file and the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.config.command_file import PlanError, check_keys, http_address, read_tables, read_values, text_of


def name_of(table: Mapping[str, Any], folder: Path) -> str:
    check_keys(table, {"name"})
    return f"{folder.name}/{text_of(table, 'name')}"


def test_tables_are_read_with_the_folder_of_the_file() -> None:
    tables = [{"name": "a"}, {}]
    assert read_tables(Path("plans/push.toml"), "push", tables, name_of) == ("plans/a", "plans/")


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ([], r"push\.toml has no table \[\[push\]\]"),
        ([1], r"push\.toml has no table \[\[push\]\]"),
        ([{}, {"nam": ""}], r"push\.toml, \[\[push\]\] number 2: 'nam' is unknown; .*name"),
        ([{"name": 1}], r"push\.toml, \[\[push\]\] number 1: name must be a string"),
    ],
)
def test_a_fault_is_a_sentence(tables: object, sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        read_tables(Path("push.toml"), "push", tables, name_of)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "push.toml"
    path.write_text("server = ")
    with pytest.raises(PlanError, match=r"push\.toml"):
        read_values(path)


@pytest.mark.parametrize("text", ["127.0.0.1", "nowhere", "127.0.0.1:0"])
def test_an_address_without_a_port_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"http is .*write 127"):
        http_address(text, "127.0.0.1:9000")
