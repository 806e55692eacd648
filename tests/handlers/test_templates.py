"""Templates: what is one, which names it is for, and the words of its fields."""

from __future__ import annotations

import pytest

from gateway.broker.model.patterns import MAX_WORDS
from gateway.handlers.templates import Template


@pytest.mark.parametrize(
    ("text", "fields", "pattern"),
    [
        ("/app/prices", (), "/app/prices"),
        ("/app/greet/{name}", ("name",), "/app/greet/*"),
        ("/app/{a}.{b}/c", ("a", "b"), "/app/*/*/c"),
        ("/app/{größe}", ("größe",), "/app/*"),
    ],
)
def test_what_it_is(text: str, fields: tuple[str, ...], pattern: str) -> None:
    template = Template(text)
    assert (template.text, template.fields, template.pattern) == (text, fields, pattern)
    assert template.pattern == "/" + "/".join(template.shape)


def test_values() -> None:
    template = Template("/app/{kind}/of/{name}")
    for name in ("/app/sort/of/thing", "/app.sort.of.thing"):
        assert template.values(name) == {"kind": "sort", "name": "thing"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("/queue/a", "functions are for destinations like /app/NAME, not for '/queue/a'"),
        ("/app/a,/app/b", "'/app/a,/app/b' has a comma, which separates destinations"),
        ("/app/*", "'/app/*' has a wildcard; a field in braces, like {name}, stands for one word"),
        ("/app/{a}/{a}", "'/app/{a}/{a}' has two fields of one name"),
        ("/app/x{a}", "'x{a}' is no field: write a Python name in braces as a whole word"),
        ("/app/{a b}", "'{a b}' is no field: write a Python name in braces as a whole word"),
        ("/app" + "/a" * MAX_WORDS, f"has {MAX_WORDS + 1} words, and may have {MAX_WORDS}"),
    ],
)
def test_what_is_none(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Template(text)
    assert sentence in str(refusal.value)
