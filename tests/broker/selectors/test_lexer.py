"""Characters to tokens, and what is no token."""

from __future__ import annotations

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.selectors.lexer import KEYWORDS, MAX_LENGTH, Lexeme, tokens


def kinds(text: str) -> list[str]:
    return [each.kind.name if isinstance(each.kind, Lexeme) else each.kind for each in tokens(text)]


def names(text: str) -> list[str]:
    return [each.string for each in tokens(text) if each.kind is Lexeme.NAME]


def refused(text: str) -> str:
    with pytest.raises(NotAllowed) as caught:
        tokens(text)
    return caught.value.detail


def test_kinds_and_columns() -> None:
    found = tokens("a<>'it''s' OR\n(b!=2.5)")
    assert [each.kind for each in found] == [
        *(Lexeme.NAME, "<>", Lexeme.STRING, "OR"),
        *("(", Lexeme.NAME, "!=", Lexeme.NUMBER, ")", Lexeme.END),
    ]
    assert [each.column for each in found] == [1, 2, 4, 12, 15, 16, 17, 19, 22, 23]
    assert [each.text for each in found][2] == "'it''s'"


def test_all_symbols_with_and_without_space() -> None:
    symbols = "<= >= <> != > < + - = * / ( ) ,".split()
    assert kinds(" ".join(symbols)) == [*symbols, "END"]
    assert kinds("".join(symbols)) == [*symbols, "END"]


def test_keywords_in_any_case() -> None:
    for keyword in sorted(KEYWORDS):
        assert kinds(f"{keyword} {keyword.lower()} {keyword.title()}") == [keyword] * 3 + ["END"]
        assert names(f'{keyword}x _{keyword} "{keyword}"') == [f"{keyword}x", f"_{keyword}", keyword]


def test_quoted_names() -> None:
    assert names('"content-type" "a b" "say ""hi""" "1" "it\'s"') == ["content-type", "a b", 'say "hi"', "1", "it's"]


def test_a_hyphen_is_a_minus_unless_it_is_asked_for() -> None:
    assert kinds("content-type") == ["NAME", "-", "NAME", "END"]
    assert names("hyphenated_props:content-type - a-b.c-1 -x") == ["content-type", "a-b.c-1", "x"]
    assert kinds("hyphenated_props:a - b-") == ["NAME", "-", "NAME", "-", "END"]


def test_the_words_of_artemis_in_front() -> None:
    assert names("convert_string_expressions:a-b") == ["a", "b"]
    assert names("convert_string_expressions:hyphenated_props:a-b") == ["a-b"]
    assert names("hyphenated_props:convert_string_expressions:a-b") == ["a-b"]
    assert [each.column for each in tokens("hyphenated_props: a")] == [19, 20]
    assert "found ':'" in refused("a = 1 OR hyphenated_props:b")


def test_numbers() -> None:
    for text, number in [
        *(("57", 57), ("0", 0), ("010", 10), ("5L", 5), ("5l", 5), ("9223372036854775808", 2**63)),
        *(("7E3", 7e3), ("57.9E2", 57.9e2), ("7.", 7.0), ("95.7", 95.7), (".5", 0.5), ("1e-3", 0.001), ("1e+3", 1e3)),
        *(("6.2f", 6.2), ("6.2D", 6.2), ("7f", 7.0), ("7d", 7.0), ("1e3d", 1e3), (".5F", 0.5)),
    ]:
        token, _ = tokens(text)
        assert token.kind is Lexeme.NUMBER
        assert token.number == number
        assert type(token.number) is type(number)


def test_what_is_no_token() -> None:
    for text, detail in [
        ("a = 'x", "column 5: found a string without its end, expected a closing '"),
        ('"a = 1', "column 1: found a quoted name without its end"),
        ('a = ""', "column 5: found a quoted name without its end, expected a name"),
        ("a = 1x", "column 5: found '1x', expected a number like 10, 2.5 or 1e3"),
        ("a = 1e", "column 5: found '1e', expected a number"),
        ("a = .", "column 5: found '.', expected a number"),
        ("a = 1.5L", "column 5: found '1.5L', expected an integer in front of L"),
        ("a = 1e300", "column 5: found '1e300', expected a number below 1e300 of at most 100 characters"),
        ("a = " + "9" * 101, "column 5: found '" + "9" * 40 + "...', expected a number below 1e300"),
        ("a = 1; b", "column 6: found ';', expected a header name, a literal or an operator"),
        ("a = ٣", "column 5: found '٣'"),
        ("a = 1 \ud800", "column 7: found '\\ud800'"),
    ]:
        assert refused(text).startswith(detail)


def test_what_is_of_another_language() -> None:
    for text, detail in [
        ("a == 'x'", "column 3: found '==', expected '=': a [here]== 'x'"),
        ("a && b", "column 3: found '&&', expected AND"),
        ("!a", "column 1: found '!', expected NOT"),
        ("headers.color = 1", "column 1: found 'headers.color', expected the header's name alone: color: [here]"),
        ("NOT headers.a.b = 1", "column 5: found 'headers.a.b', expected the header's name alone: a.b"),
        ("headers.not = 1", "column 1: found 'headers.not', expected the header's name alone: \"not\""),
        ("headers['a-b'] = 1", 'column 1: found "headers[\'a-b\']", expected the header\'s name alone: "a-b"'),
        ('headers["a"] = 1', "column 1: found 'headers[\"a\"]', expected the header's name alone: a"),
        ("headers[", "column 1: found 'headers[', expected the header's name alone: [here]"),
        ("headers.get('a')", "column 1: found 'headers.', expected the header's name alone: [here]"),
    ]:
        assert refused(text).startswith(detail)


def test_other_names_are_names() -> None:
    for text in ["headers", "headersx.a", "xheaders.a", "Headers.a", '"headers.a"', "a.headers.b"]:
        assert names(text) == [text.strip('"')]


def test_the_length_is_bounded() -> None:
    assert len(tokens("a" * MAX_LENGTH)) == 2
    assert refused("a" * (MAX_LENGTH + 1)).startswith(
        "column 4097: found a selector of 4097 characters, expected 4096 at most: ..."
    )
