"""Every row of the dictionary by its fate: a row whose fate nobody has put to the test fails here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.headers import parse
from gateway.broker.headers.parse import (
    LEFT_TO_THE_CODEC,
    may_requeue,
    send_options,
    subscribe_options,
    unsubscribe_options,
)
from gateway.broker.headers.row import HeaderRow, Spelling, Treatment
from gateway.broker.headers.table import COMMANDS, INDEX, TABLE
from gateway.broker.headers.values import Anything, ReplyTo
from gateway.broker.model.options import NO_OPTIONS, PLAIN, SendOptions
from gateway.broker.model.policy import ClientArguments

from .header_cases import ELSEWHERE, ENDED, HINTED, READERS, SENT, SUBSCRIBED, WRONG, Case, without_passed_on


def spellings(*fates: Treatment, commands: tuple[str, ...] = COMMANDS, argument: bool | None = None) -> list[Any]:
    """(command, row, spelling) of all rows with such a fate, as parameters of a test."""
    return [
        pytest.param(command, entry.row, entry.spelling, id=f"{command}-{name}")
        for command in commands
        for name, entry in INDEX[command].items()
        if entry.row.treatment in fates and argument in (None, entry.row.argument)
    ]


def cases(table: Mapping[str, list[Case]]) -> list[Any]:
    return [(name, value, fields) for name, each in table.items() for value, fields in each]


class TestTheTableIsTested:
    def test_every_honoured_header_has_cases(self) -> None:
        def named(command: str, argument: bool) -> set[str]:
            every = spellings(Treatment.HONOURED, commands=(command,), argument=argument)
            return {spelling.name for _, _, spelling in (each.values for each in every) if spelling.field}

        assert named("SEND", False) == set(SENT)
        assert named("SUBSCRIBE", False) == set(SUBSCRIBED)
        assert named("UNSUBSCRIBE", False) == set(ENDED)
        assert named("SEND", True) == named("SUBSCRIBE", True) == set(HINTED)

    def test_every_value_that_can_be_wrong_has_cases(self) -> None:
        bounded = {
            spelling.name
            for row in TABLE
            for spelling in row.spellings
            if spelling.field and not isinstance(spelling.values, (Anything, ReplyTo))
        }
        assert bounded == set(WRONG)

    def test_what_others_read(self) -> None:
        """What has no field here is read by its name in another module of broker or codec, or by `may_requeue`."""
        unread = {
            each.name
            for row in TABLE
            if row.treatment is Treatment.HONOURED
            for each in row.spellings
            if not each.field
        }
        assert unread - {"requeue"} == ELSEWHERE
        root = Path(parse.__file__).parent
        sources = [*root.glob("*.py"), *(root.parent / "codec").glob("*.py")]
        code = "".join(path.read_text(encoding="utf-8") for path in sources)
        assert {name for name in ELSEWHERE if f'"{name}"' not in code} == set()

    def test_every_row_has_a_fate_that_is_tested_here(self) -> None:
        assert set(Treatment) == {Treatment.HONOURED, Treatment.PASSED_ON, Treatment.REFUSED, Treatment.WITHOUT_EFFECT}
        visible = {row.treatment for row in TABLE if "SEND" in row.frames and row.visible}
        assert visible == {Treatment.HONOURED, Treatment.PASSED_ON, Treatment.WITHOUT_EFFECT}


class TestHonoured:
    @pytest.mark.parametrize(("name", "value", "fields"), cases(SENT))
    def test_on_send(self, name: str, value: str, fields: dict[str, Any]) -> None:
        options = send_options({"destination": "/queue/a", name: value})
        assert without_passed_on(options) == dataclasses.replace(PLAIN, **fields)
        assert without_passed_on(options).is_plain is (not fields or fields == {"persistent": True})

    @pytest.mark.parametrize(("name", "value", "fields"), cases(SUBSCRIBED))
    def test_on_subscribe(self, name: str, value: str, fields: dict[str, Any]) -> None:
        options = subscribe_options({"destination": "/queue/a", "id": "0", name: value})
        assert options == dataclasses.replace(NO_OPTIONS, **fields)
        assert (options is NO_OPTIONS) is (not fields)

    @pytest.mark.parametrize(("name", "value", "fields"), cases(HINTED))
    def test_queue_arguments(self, name: str, value: str, fields: dict[str, Any]) -> None:
        headers = {"destination": "/queue/a", name: value}
        assert send_options(headers).queue_arguments == ClientArguments(**fields)
        assert subscribe_options(headers).queue_arguments == ClientArguments(**fields)

    @pytest.mark.parametrize(("name", "value", "fields"), cases(ENDED))
    def test_on_unsubscribe(self, name: str, value: str, fields: dict[str, Any]) -> None:
        ended = unsubscribe_options({"id": "0", "destination": "/topic/a", name: value})
        assert ended == (dataclasses.replace(NO_OPTIONS, **fields) if fields else None)

    def test_an_unsubscribe_that_ends_nothing(self) -> None:
        """Of what a SUBSCRIBE may have beside, nothing counts here."""
        assert (
            unsubscribe_options(
                {"id": "0", "destination": "/topic/a", "auto-delete": "false", "selector": "?", "my": "x"}
            )
            is None
        )

    @pytest.mark.parametrize(
        ("command", "name", "value"),
        [
            (command, name, value)
            for command in (*READERS, "UNSUBSCRIBE")
            for name, values in WRONG.items()
            for value in values
            if name in INDEX[command] and INDEX[command][name].spelling.field
        ],
    )
    def test_wrong_values(self, command: str, name: str, value: str) -> None:
        with pytest.raises(NotAllowed) as refusal:
            READERS.get(command, unsubscribe_options)({"destination": "/queue/a", name: value})
        assert str(refusal.value) == f"bad value of {name}"
        allowed = INDEX[command][name].spelling.values.allowed
        assert refusal.value.detail == f"{name} must be {allowed}; the frame has {value[:80]!r}"

    @pytest.mark.parametrize(
        ("headers", "requeue"),
        [({}, True), ({"requeue": "true"}, True), ({"requeue": "false"}, False), ({"requeue": "False"}, False)],
    )
    def test_requeue(self, headers: dict[str, str], requeue: bool) -> None:
        assert may_requeue(headers) is requeue

    @pytest.mark.parametrize("value", ["", "no", "0"])
    def test_wrong_requeue(self, value: str) -> None:
        with pytest.raises(NotAllowed, match="bad value of requeue") as refusal:
            may_requeue({"requeue": value})
        assert "true or false" in refusal.value.detail


@pytest.mark.parametrize(("command", "row", "spelling"), spellings(Treatment.PASSED_ON))
def test_passed_on(command: str, row: HeaderRow, spelling: Spelling) -> None:
    assert command == "SEND"
    assert row.visible
    assert send_options({"destination": "/queue/a", spelling.name: "x"}) is PLAIN


@pytest.mark.parametrize(
    ("command", "row", "spelling"), spellings(Treatment.WITHOUT_EFFECT, commands=("SEND", "SUBSCRIBE"))
)
@pytest.mark.parametrize("value", ["", "true", "10", "\x00"])
def test_without_effect(command: str, row: HeaderRow, spelling: Spelling, value: str) -> None:
    asked = READERS[command]({"destination": "/queue/a", spelling.name: value})
    assert without_passed_on(asked) == (PLAIN if isinstance(asked, SendOptions) else NO_OPTIONS)


def test_nothing_is_refused_on_other_frames() -> None:
    """Nobody would look."""
    commands = tuple(set(COMMANDS) - set(READERS))
    assert spellings(Treatment.REFUSED, Treatment.PASSED_ON, commands=commands) == []


class TestRefused:
    @pytest.mark.parametrize(("command", "row", "spelling"), spellings(Treatment.REFUSED))
    @pytest.mark.parametrize("value", ["true", "stream", "1", "x" * 5_000])
    def test_says_so(self, command: str, row: HeaderRow, spelling: Spelling, value: str) -> None:
        with pytest.raises(NotAllowed) as refusal:
            READERS[command]({"destination": "/queue/a", spelling.name: value})
        assert str(refusal.value) == f"{spelling.name} is not supported"
        detail = refusal.value.detail
        assert detail.startswith(f"this server does not support {spelling.name}:{value[:80]}. {row.meaning}")
        assert "Leave the header out" in detail
        assert all(word in detail for word in spelling.passes)

    @pytest.mark.parametrize(
        ("command", "name", "value"),
        [
            (command, spelling.name, value)
            for command, _, spelling in (each.values for each in spellings(Treatment.REFUSED))
            for value in spelling.passes
        ],
    )
    def test_a_value_that_asks_for_nothing_passes(self, command: str, name: str, value: str) -> None:
        for text in (value, value.upper()):
            asked = READERS[command]({"destination": "/queue/a", name: text})
            assert without_passed_on(asked) in (PLAIN, NO_OPTIONS)

    @pytest.mark.parametrize(
        "headers",
        [
            {"AMQ_SCHEDULED_CRON": "0 * * * *"},
            {"AMQ_SCHEDULED_DELAY": "1000", "AMQ_SCHEDULED_PERIOD": "1000", "AMQ_SCHEDULED_REPEAT": "9"},
            {"x-queue-type": "stream", "x-max-age": "7D"},
        ],
    )
    def test_as_users_of_other_brokers_send(self, headers: dict[str, str]) -> None:
        with pytest.raises(NotAllowed, match="is not supported"):
            send_options(headers)

    def test_even_beside_one_that_asks_for_nothing(self) -> None:
        with pytest.raises(NotAllowed, match="AMQ_SCHEDULED_CRON is not supported"):
            send_options({"AMQ_SCHEDULED_REPEAT": "0", "AMQ_SCHEDULED_CRON": "0 * * * *"})

    def test_of_several_mistakes_the_first_of_the_table_is_named(self) -> None:
        headers = {"AMQ_SCHEDULED_CRON": "*", "x-delay": "soon", "priority": "high"}
        for names in (list(headers), list(reversed(headers))):
            with pytest.raises(NotAllowed, match="bad value of priority"):
                send_options({name: headers[name] for name in names})


@pytest.mark.parametrize(
    ("command", "row", "spelling"),
    spellings(Treatment.HONOURED, Treatment.WITHOUT_EFFECT, Treatment.PASSED_ON, commands=("SEND",)),
)
def test_what_subscribers_see(command: str, row: HeaderRow, spelling: Spelling) -> None:
    examples = (HINTED if row.argument else SENT).get(spelling.name) or [("", {})]
    headers = {"destination": "/queue/a", spelling.name: examples[0][0], "mine": "x"}
    if spelling.name.startswith("x-dead-letter"):
        headers |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
    passed_on = send_options(headers).passed_on
    if row.visible or spelling.name in LEFT_TO_THE_CODEC:
        added = {row.name: headers[spelling.name]} if row.also_canonical and spelling is not row.spellings[0] else {}
        assert passed_on == ({**headers, **added} if added else None)
    else:
        assert passed_on == {"destination": "/queue/a", "mine": "x"}
