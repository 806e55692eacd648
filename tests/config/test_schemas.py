"""Schemas: what they refuse and with which words, which files they read, and what the settings file says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config import schemas
from gateway.config.schemas import JsonSchema, SchemaError
from gateway.config.settings import SettingsError, load
from gateway.runtime.gateway import policies_of

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "items": {"type": "array", "items": {"$ref": "item.json"}},
        "mail": {"type": "string", "format": "email"},
        "a/b~c": {"const": 1},
    },
}
ITEM = {
    "type": "object",
    "properties": {"price": {"$ref": "#/$defs/price"}},
    "$defs": {"price": {"exclusiveMinimum": 0}},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schemas").mkdir()
    write(tmp_path / "schemas" / "order.json", ORDER)
    write(tmp_path / "schemas" / "item.json", ITEM)
    return tmp_path / "schemas"


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


class TestBodies:
    @pytest.mark.parametrize(
        ("body", "refusal"),
        [
            (b'{"id": 1, "items": [{"price": 2}], "mail": "ada@example.org"}', ""),
            (b'{"id": "secret"}', '/id: the value is not of type "integer"'),
            (
                b'{"id": 1, "items": [{}, {"price": -2}]}',
                "/items/1/price: the value is less than or equal to the minimum of 0",
            ),
            (b'{"id": 1, "mail": "secret"}', '/mail: the value is not a "email"'),
            (b'{"id": 1, "a/b~c": "secret"}', "/a~1b~0c: 1 was expected"),
            (b"[]", 'the body: the value is not of type "object"'),
            (b"{}", 'the body: "id" is a required property'),
            (b"", "it is not JSON in UTF-8"),
            (b"secret", "it is not JSON in UTF-8"),
            (b'"\xff"', "it is not JSON in UTF-8"),
            (b'{"id": NaN}', "it is not JSON in UTF-8"),
            (b"[" * 100_000, "it is not JSON in UTF-8"),
            (b"1" * 5_000, "it is not JSON in UTF-8"),
            (b" " * (schemas.MAX_BODY + 1), "it has 262,145 bytes, and is checked up to 262,144"),
        ],
    )
    def test_what_is_refused(self, folder: Path, body: bytes, refusal: str) -> None:
        assert JsonSchema(folder / "order.json").refusal(body) == refusal

    def test_a_long_reason_is_cut(self, tmp_path: Path) -> None:
        schema = JsonSchema(write(tmp_path / "a.json", {"enum": ["x" * 100] * 1 + ["y" * 1_000]}))
        assert len(schema.refusal(b"1")) <= 300


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ({"type": "strin"}, "is no JSON Schema: /type: "),
            ([], "is no JSON Schema: it must be an object"),
            ({"$ref": "http://127.0.0.1:9/a.json"}, "is no JSON Schema: http://127.0.0.1:9/a.json is not in "),
            ({"$ref": "../a.json"}, "is no JSON Schema: file:///"),
            ({"$ref": "nowhere.json"}, "is no JSON Schema: /"),
            ({"$ref": "#/$defs/nowhere"}, "is no JSON Schema: "),
        ],
    )
    def test_what_is_no_schema(self, folder: Path, content: object, sentence: str) -> None:
        with pytest.raises(SchemaError) as refusal:
            JsonSchema(write(folder / "a.json", content))
        assert str(refusal.value).startswith(sentence)

    @pytest.mark.parametrize(
        ("data", "sentence"),
        [
            (b"{\n a", "is not JSON: line 2 column 2: Expecting property name enclosed in double quotes"),
            (b"\xff", "is not UTF-8"),
            (b"NaN", "is not JSON: JSON has no NaN"),
            (b" " * (4 * 1024 * 1024 + 1), "has 4,194,305 bytes, and may have 4,194,304"),
        ],
    )
    def test_what_cannot_be_read(self, tmp_path: Path, data: bytes, sentence: str) -> None:
        (tmp_path / "a.json").write_bytes(data)
        with pytest.raises(SchemaError) as refusal:
            JsonSchema(tmp_path / "a.json")
        assert str(refusal.value) == sentence

    def test_equality_is_that_of_the_files(self, folder: Path) -> None:
        one = JsonSchema(folder / "order.json")
        assert one == JsonSchema(folder / "order.json")
        assert hash(one) == hash(JsonSchema(folder / "order.json"))
        write(folder / "item.json", {})
        assert one != JsonSchema(folder / "order.json")


class TestSettings:
    def test_a_name_is_relative_to_the_file(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = '[[policy]]\nmatch = "/queue/#"\nschema = "order.json"\n[[policy]]\nmatch = "/queue/free"\nschema = ""\n'
        (folder / "gateway.toml").write_text(text)
        monkeypatch.setenv("GATEWAY_CONFIG", "schemas/gateway.toml")
        found = policies_of(load())
        assert found.checks_bodies
        assert str(found.schema_of("/queue/a")) == "schemas/order.json"
        assert found.find("/queue/a").schema == JsonSchema(Path("schemas/order.json"))
        assert found.schema_of("/queue/free") is found.schema_of("/topic/a") is None

    @pytest.mark.parametrize(
        ("value", "sentence"),
        [
            ('"nowhere.json"', 'schema: "nowhere.json" cannot be read: No such file or directory'),
            ("1", "schema must be the name of a file with a JSON Schema, or empty, not 1"),
        ],
    )
    def test_what_is_refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch, value: str, sentence: str) -> None:
        monkeypatch.chdir(folder)
        (folder / "gateway.toml").write_text(f'[[policy]]\nmatch = "/queue/a"\nschema = {value}\n')
        with pytest.raises(SettingsError) as refusal:
            load()
        assert str(refusal.value) == f'gateway.toml line 3: policy for "/queue/a": {sentence}'
