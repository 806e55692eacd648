"""Every row of the table by its treatment: a row without a case in `header_cases` fails here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import gateway.codec
from gateway.broker.errors import NotAllowed
from gateway.broker.headers import parse
from gateway.broker.headers.parse import (
    is_in_progress,
    may_requeue,
    send_options,
    subscribe_options,
    unsubscribe_options,
)
from gateway.broker.headers.row import HeaderEntry, HeaderRow, Treatment
from gateway.broker.headers.table import COMMANDS, INDEX, TABLE
from gateway.broker.headers.values import Anything, ReplyTo
from gateway.broker.model.options import NO_OPTIONS, PERSISTENT, PLAIN, TRANSIENT, SendOptions
from gateway.broker.model.policy import QueueArguments
from gateway.codec.encoder import NOT_PASSED_ON

from .header_cases import ARGUMENTS, ELSEWHERE, ENDED, READERS, SENT, SUBSCRIBED, WRONG, Case, without_passed_on

ALL_READERS = {**READERS, "UNSUBSCRIBE": unsubscribe_options}
Cases = Mapping[str, list[Case]]


def entries(*treatments: Treatment, command: str, argument: bool | None = None) -> list[HeaderEntry]:
    """Entries of a command with such a treatment."""
    return [
        entry
        for entry in INDEX[command].values()
        if entry.row.treatment in treatments and argument in (None, entry.row.argument)
    ]


def rows(*treatments: Treatment, commands: Iterable[str] = READERS) -> Any:
    """Parametrizes a test with the rows of such a treatment, of these commands."""
    found = [row for row in TABLE if row.treatment in treatments and not set(commands).isdisjoint(row.frames)]
    return pytest.mark.parametrize("row", found, ids=lambda row: f"{row.frames[0]} {row.name}")


def frames_of(row: HeaderRow) -> Iterator[tuple[str, HeaderEntry]]:
    """Each frame that is read for options and may have the row's header, and each of its names."""
    for command in row.frames:
        if command in READERS:
            yield from ((command, INDEX[command][each.name]) for each in row.spellings)


class TestTheTableIsTested:
    def test_every_honoured_header_has_cases(self) -> None:
        def named(command: str, argument: bool) -> set[str]:
            every = entries(Treatment.HONOURED, command=command, argument=argument)
            return {entry.spelling.name for entry in every if entry.spelling.field}

        assert named("SEND", False) == set(SENT)
        assert named("SUBSCRIBE", False) == set(SUBSCRIBED)
        assert named("UNSUBSCRIBE", False) == set(ENDED)
        assert named("SEND", True) == named("SUBSCRIBE", True) == set(ARGUMENTS)

    def test_every_value_that_can_be_wrong_has_cases(self) -> None:
        bounded = {
            spelling.name
            for row in TABLE
            for spelling in row.spellings
            if spelling.field and not isinstance(spelling.values, (Anything, ReplyTo))
        }
        assert bounded == set(WRONG)

    def test_headers_that_other_modules_read(self) -> None:
        """A header without a field is read by its name in another module of broker or codec, or has a function."""
        honoured = [row for row in TABLE if row.treatment is Treatment.HONOURED]
        unread = {each.name for row in honoured for each in row.spellings if not each.field}
        assert unread - {"requeue", "in-progress"} == ELSEWHERE
        sources = [*Path(parse.__file__).parent.parent.rglob("*.py"), *Path(gateway.codec.__file__).parent.glob("*.py")]
        code = "".join(path.read_text(encoding="utf-8") for path in sources)
        assert {name for name in ELSEWHERE if f'"{name}"' not in code} == set()

    def test_which_treatments_let_subscribers_see_a_header(self) -> None:
        visible = {row.treatment for row in TABLE if "SEND" in row.frames and row.visible}
        assert visible == set(Treatment) - {Treatment.REFUSED}

    def test_headers_are_refused_or_passed_on_only_where_they_are_read(self) -> None:
        for command in set(COMMANDS) - set(READERS):
            assert entries(Treatment.REFUSED, Treatment.PASSED_ON, command=command) == []


class TestHonoured:
    @pytest.mark.parametrize("name", SENT)
    def test_on_send(self, name: str) -> None:
        for value, fields in SENT[name]:
            options = send_options({"destination": "/queue/a", name: value})
            assert without_passed_on(options) == dataclasses.replace(PLAIN, **fields)
            assert options.is_plain is (options in (PLAIN, PERSISTENT, TRANSIENT))

    @pytest.mark.parametrize("name", SUBSCRIBED)
    def test_on_subscribe(self, name: str) -> None:
        for value, fields in SUBSCRIBED[name]:
            options = subscribe_options({"destination": "/queue/a", "id": "0", name: value})
            assert options == dataclasses.replace(NO_OPTIONS, **fields)
            assert (options is NO_OPTIONS) is (not fields)

    @pytest.mark.parametrize("name", ARGUMENTS)
    def test_queue_arguments(self, name: str) -> None:
        for value, fields in ARGUMENTS[name]:
            headers = {"destination": "/queue/a", name: value}
            for read in READERS.values():
                assert read(headers).queue_arguments == QueueArguments(**fields)

    @pytest.mark.parametrize("name", ENDED)
    def test_on_unsubscribe(self, name: str) -> None:
        for value, fields in ENDED[name]:
            ended = unsubscribe_options({"id": "0", "destination": "/topic/a", name: value})
            assert ended == (dataclasses.replace(NO_OPTIONS, **fields) if fields else None)

    def test_an_unsubscribe_that_ends_nothing(self) -> None:
        """Other headers of a SUBSCRIBE do not count here."""
        headers = {"id": "0", "destination": "/topic/a", "auto-delete": "false", "selector": "?", "my": "x"}
        assert unsubscribe_options(headers) is None

    @pytest.mark.parametrize("name", WRONG)
    def test_wrong_values(self, name: str) -> None:
        for command, read in ALL_READERS.items():
            if name not in INDEX[command] or not INDEX[command][name].spelling.field:
                continue
            allowed = INDEX[command][name].spelling.values.allowed
            for value in WRONG[name]:
                with pytest.raises(NotAllowed) as refusal:
                    read({"destination": "/queue/a", name: value})
                assert str(refusal.value) == f"bad value of {name}"
                assert refusal.value.detail == f"{name} must be {allowed}; the frame has {value[:80]!r}"

    def test_requeue(self) -> None:
        assert may_requeue({})
        assert may_requeue({"requeue": "true"})
        assert not may_requeue({"requeue": "false"})
        assert not may_requeue({"requeue": "False"})
        for value in ("", "no", "0"):
            with pytest.raises(NotAllowed, match="bad value of requeue") as refusal:
                may_requeue({"requeue": value})
            assert "true or false" in refusal.value.detail

    def test_in_progress(self) -> None:
        assert is_in_progress({"in-progress": "true"})
        assert not is_in_progress({"in-progress": "FALSE"})
        with pytest.raises(NotAllowed, match="bad value of in-progress"):
            is_in_progress({"in-progress": ""})


@rows(Treatment.PASSED_ON)
def test_passed_on(row: HeaderRow) -> None:
    assert row.frames == ("SEND",)
    assert row.visible
    assert send_options({"destination": "/queue/a", row.name: "x"}) is PLAIN


@rows(Treatment.WITHOUT_EFFECT)
def test_without_effect(row: HeaderRow) -> None:
    for command, entry in frames_of(row):
        for value in ("", "true", "10", "\x00"):
            asked = READERS[command]({"destination": "/queue/a", entry.spelling.name: value})
            assert without_passed_on(asked) == (PLAIN if isinstance(asked, SendOptions) else NO_OPTIONS)


class TestRefused:
    @rows(Treatment.REFUSED)
    def test_says_so(self, row: HeaderRow) -> None:
        for command, entry in frames_of(row):
            name, passes = entry.spelling.name, entry.spelling.passes
            for value in ("true", "stream", "1", "x" * 5_000):
                with pytest.raises(NotAllowed) as refusal:
                    READERS[command]({"destination": "/queue/a", name: value})
                assert str(refusal.value) == f"{name} is not supported"
                detail = refusal.value.detail
                assert detail.startswith(f"this server does not support {name}:{value[:80]}. {row.meaning}")
                assert "Leave the header out" in detail
                assert all(word in detail for word in passes)
            for value in passes:
                for text in (value, value.upper()):
                    asked = READERS[command]({"destination": "/queue/a", name: text})
                    assert without_passed_on(asked) in (PLAIN, NO_OPTIONS)

    def test_of_several_mistakes_the_first_of_the_table_is_named(self) -> None:
        headers = {"exclusive": "true", "x-delay": "soon", "priority": "high"}
        for names in (list(headers), list(reversed(headers))):
            with pytest.raises(NotAllowed, match="bad value of priority"):
                send_options({name: headers[name] for name in names})


@rows(Treatment.HONOURED, Treatment.WITHOUT_EFFECT, Treatment.PASSED_ON, commands=["SEND"])
def test_what_subscribers_see(row: HeaderRow) -> None:
    for spelling in row.spellings:
        examples = (ARGUMENTS if row.argument else SENT).get(spelling.name) or [("", {})]
        headers = {"destination": "/queue/a", spelling.name: examples[0][0], "mine": "x"}
        if spelling.name.startswith("x-dead-letter"):
            headers |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
        passed_on = send_options(headers).passed_on
        if row.visible or spelling.name in NOT_PASSED_ON:
            is_added = row.also_canonical and spelling is not row.spellings[0]
            assert passed_on == ({**headers, row.name: headers[spelling.name]} if is_added else None)
        else:
            assert passed_on == {"destination": "/queue/a", "mine": "x"}
