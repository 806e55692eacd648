"""Headers to what they ask: the rules that hold between rows of the dictionary, and what holds whatever comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.errors import NotAllowed
from gateway.broker.headers.parse import (
    Misspelt,
    misspelt,
    send_options,
    subscribe_options,
)
from gateway.broker.headers.row import OTHER_WORDS, squashed
from gateway.broker.headers.table import COMMANDS, INDEX, TABLE
from gateway.broker.model.options import NO_OPTIONS, PERSISTENT, PLAIN, TRANSIENT, SendOptions
from gateway.broker.model.policy import QueueArguments
from gateway.codec.encoder import NOT_PASSED_ON

from ..client import Scene
from .header_cases import ARGUMENTS, READERS, SENT, SUBSCRIBED, TEN_YEARS, without_passed_on


class TestPlain:
    HEADERS: dict[str, str] = {  # noqa: RUF012
        "destination": "/topic/a",
        "content-type": "text/plain",
        "content-length": "3",
        "receipt": "r-1",
        "correlation-id": "7",
        "timestamp": "1700000000000",
        "my-own": "x",
        "selector": "a user's own header on SEND",
        "x-stream-offset": "17",
    }

    def test_a_send_that_asks_for_nothing_or_to_be_stored(self) -> None:
        asking_nothing: list[dict[str, str]] = [{}, {"priority": "4"}]
        asking_nothing += [{"reply-to": "/queue/answers"}, {"selector": "price >"}, {"JMSXGroupSeq": "-1"}]
        asking_nothing += [{name: "x"} for name in NOT_PASSED_ON if name != "transaction"]
        for headers in asking_nothing:
            assert send_options(headers) is send_options({**self.HEADERS, **headers}) is PLAIN
        assert send_options({**self.HEADERS, "persistent": "true"}) is PERSISTENT
        assert send_options({**self.HEADERS, "persistent": "false"}) is TRANSIENT

    def test_a_subscribe_that_asks_for_nothing(self) -> None:
        headers = {"destination": "/queue/a", "id": "0", "ack": "client", "receipt": "1", "expires": "0", "my-own": "x"}
        for asked in ({}, headers, {"exclusive": "false", "x-priority": "0"}):
            assert subscribe_options(asked) is NO_OPTIONS


class TestAsUsersOfOtherBrokersSay:
    """Independent of the table: what must be refused, and what must pass, as their documentation writes it."""

    SEND = (
        *("exclusive:true", "x-queue-type:stream", "x-max-age:7D", "x-overflow:reject-publish"),
        "x-stream-max-segment-size-bytes:500",
        *("x-stream-filter-size-bytes:32", "x-stream-filter-value:eu"),
    )
    SUBSCRIBE = (
        *("x-max-age:7D", "x-stream-filter:eu", "x-stream-match-unfiltered:true", "x-queue-type:stream"),
        "x-overflow:reject-publish-dlx",
    )

    def test_what_passes(self) -> None:
        harmless = {
            "AMQ_SCHEDULED_REPEAT": "0",
            "x-queue-type": "quorum",
            "x-overflow": "drop-head",
            "x-max-priority": "10",
        }
        assert without_passed_on(send_options({**harmless, "durable": "true", "transformation": "jms-xml"})) == PLAIN
        of_subscribe = {"activemq.dispatchAsync": "true", "activemq.retroactive": "false", "durable": "false"}
        assert subscribe_options({**of_subscribe, "transformation": "jms-xml", "x-max-priority": "10"}) is NO_OPTIONS


class TestMisspelt:
    """A near miss has no effect and is told to the operator; on a SEND it is the user's own."""

    NEAR = (
        *("prefetch prefetchCount prefetch_count Prefetch-Count prefetchSize prefetch-size PREFETCH : prefetch-count",),
        *("ackMode ack-mode Ack : ack", "Selector : selector", "Receipt : receipt", "noLocal : no-local", "ID : id"),
        *("activemq.prefetchsize : activemq.prefetchSize", "Consumer-Window-Size : consumer-window-size"),
        *("X-Priority xpriority : x-priority", "autoDelete : auto-delete", "X-Message-TTL : x-message-ttl"),
        *("From-Seq : from-seq", "Durable : durable", "browserEnd : browser-end"),
        "Subscription_Type : subscription-type",
    )

    def test_a_near_miss(self) -> None:
        for written, known in [line.split(" : ") for line in self.NEAR]:
            for name in written.split():
                headers = {"destination": "/queue/a", name: "1"}
                assert subscribe_options(headers) is NO_OPTIONS
                assert list(misspelt(headers)) == [Misspelt(name, known)]
                assert send_options(headers) is PLAIN

    def test_other_names_are_not_told(self) -> None:
        without_effect = ["Transformation", "x-max_priority", "ActiveMQ.DispatchAsync"]
        own = "my-prefetch prefetches count priority acknowledge id2 - é İd Content-Type".split()
        for name in [*without_effect, *own, ""]:
            headers = {"destination": "/queue/a", "id": "0", name: "1"}
            assert subscribe_options(headers) is NO_OPTIONS
            assert not list(misspelt(headers))

    def test_beside_the_right_one_it_is_harmless(self) -> None:
        """So do clients that speak to several brokers."""
        for right in ["prefetch-count", "activemq.prefetchSize", "credit"]:
            for sent in ({"prefetch": "7", right: "5"}, {right: "5", "Prefetch-Count": "7"}):
                assert subscribe_options(sent).prefetch == 5
                assert not list(misspelt(sent))

    def test_the_subscription_is_there(self, scene: Scene) -> None:
        client = scene.connect()
        client.subscribe("/queue/a", prefetch="1", consumerWindowSize="0", colour="red", receipt="r")
        assert client.receipts() == ["r"]
        meant = [(each.name, each.known) for each, *_ in scene.misspelt]
        assert meant == [("prefetch", "prefetch-count"), ("consumerWindowSize", "consumer-window-size")]
        assert {tuple(whose) for _, *whose in scene.misspelt} == {(client.session.id, "anonymous")}
        assert scene.broker.counters.misspelt_headers == 2

    def test_other_words_mean_headers_that_are_there(self) -> None:
        for other, name in OTHER_WORDS.items():
            assert other not in INDEX["SUBSCRIBE"]
            assert name in INDEX["SUBSCRIBE"]

    def test_no_two_headers_are_near_each_other(self) -> None:
        names = list(INDEX["SUBSCRIBE"])
        assert len({squashed(name) for name in [*names, *OTHER_WORDS]}) == len(names) + len(OTHER_WORDS)


class TestFirstCounts:
    def test_canonical_before_alias_and_aliases_in_their_order(self) -> None:
        """The values of names behind the first are not even looked at."""
        for command, row in [
            (command, row) for command in READERS for row in TABLE if command in row.frames and row.spellings[0].field
        ]:
            tables = ARGUMENTS if row.argument else SENT if command == "SEND" else SUBSCRIBED
            for place, spelling in enumerate(row.spellings[:-1]):
                value = tables[spelling.name][0][0] if tables[spelling.name] else ""
                alone = {spelling.name: value}
                others = {each.name: "\x00 nonsense" for each in row.spellings[place + 1 :]}
                read = READERS[command]
                first, last = read({**alone, **others}), read({**others, **alone})
                assert without_passed_on(first) == without_passed_on(last) == without_passed_on(read(alone))

    def test_a_canonical_value_that_says_nothing_leaves_it_to_the_others(self) -> None:
        """ActiveMQ's clients write expires:0 always."""
        assert send_options({"expires": "0"}) is PLAIN
        assert send_options({"expires": "0", "ttl": "5000"}).time_to_live == 5.0
        assert send_options({"JMSXGroupID": "", "message_group": "g"}).group == "g"


def test_a_group_is_closed_by_the_number_minus_one() -> None:
    for name in ["JMSXGroupID", "message_group", "_AMQ_GROUP_ID"]:
        options = send_options({name: "g", "JMSXGroupSeq": "-1"})
        assert (options.group, options.closes_group) == ("g", True)
        assert not send_options({name: "g", "JMSXGroupSeq": "2"}).closes_group


def test_a_selector_is_parsed_and_its_stripped_text_kept() -> None:
    options = subscribe_options({"selector": "  price > 10 AND symbol = 'IBM'\n"})
    assert options.selector_text == "price > 10 AND symbol = 'IBM'"
    assert options.selector is not None
    assert options.selector({"price": "11", "symbol": "IBM"})
    assert not options.selector({"price": "9", "symbol": "IBM"})
    assert not options.selector({})
    with pytest.raises(NotAllowed):
        subscribe_options({"selector": "price >"})


EXCHANGE, KEY = "x-dead-letter-exchange", "x-dead-letter-routing-key"


@pytest.mark.parametrize("read", [send_options, subscribe_options])
class TestDeadLetters:
    def test_the_pair_names_a_destination(self, read: Callable[[dict[str, str]], SendOptions]) -> None:
        for exchange, key, target in [
            ("", "failed", "/queue/failed"),
            ("", "orders*", "/queue/orders*"),
            ("amq.topic", "orders.failed", "/topic/orders.failed"),
            ("amq.direct", "failed", "/exchange/amq.direct/failed"),
            ("amq.fanout", "failed", "/exchange/amq.fanout"),
            ("amq.fanout", "orders.#", "/exchange/amq.fanout"),
        ]:
            arguments = read({EXCHANGE: exchange, KEY: key, "x-max-length": "5"}).queue_arguments
            assert arguments == QueueArguments(dead_letter=target, max_messages=5)
        alone = read({EXCHANGE: "amq.fanout"}).queue_arguments
        assert alone == QueueArguments(dead_letter="/exchange/amq.fanout")

    def test_a_wrong_pair_is_refused(self, read: Callable[[dict[str, str]], SendOptions]) -> None:
        for headers, message, detail in [
            ({EXCHANGE: ""}, f"{EXCHANGE} without {KEY}", "the two name one destination together"),
            ({KEY: "failed"}, f"{KEY} without {EXCHANGE}", "the two name one destination together"),
            ({EXCHANGE: "amq.topic", KEY: "orders.#"}, f"bad value of {KEY}", "'/topic/orders.#'"),
            ({EXCHANGE: "", KEY: "a,b"}, f"bad value of {KEY}", "'/queue/a,b'"),
            ({EXCHANGE: "amq.topic", KEY: "orders*"}, "a wildcard inside of a word", "'/topic/orders*'"),
            ({EXCHANGE: "", KEY: "." * 200}, "too many words in a destination", "202 words"),
        ]:
            with pytest.raises(NotAllowed) as refusal:
                read(headers)
            assert str(refusal.value) == message
            assert detail in refusal.value.detail


class TestWhatSubscribersSee:
    def test_the_codec_leaves_out_what_it_is_left(self) -> None:
        hidden = {each.name for row in TABLE if "SEND" in row.frames and not row.visible for each in row.spellings}
        # The server's own content-length takes the place of the sender's.
        assert hidden >= NOT_PASSED_ON - {"content-length"}

    def test_control_headers_never_leak(self) -> None:
        kept = {"destination": "/topic/a", "priority": "7", "ttl": "1000", "user-id": "me", "_AMQ_LVQ_NAME": "IBM"}
        kept |= {"reply-to": "/temp-queue/a", "receipt": "left to the codec"}
        cut = {"x-delay": "10", "_AMQ_DUPL_ID": "7", "retain": "set", "x-message-ttl": "1000", "durable": "true"}
        cut |= {"browser": "end", "JMSXUserID": "admin", "x-queue-type": "classic"}
        assert send_options(kept | cut).passed_on == kept
        passed_on = send_options({"b": "1", "x-delay": "5", "a": "2"}).passed_on
        assert list(passed_on or ()) == ["b", "a"], "in their order"

    def test_an_alias_of_the_group_is_told_by_its_canonical_name_too(self) -> None:
        assert send_options({"message_group": "g"}).passed_on == {"message_group": "g", "JMSXGroupID": "g"}
        both = {"_AMQ_GROUP_ID": "x", "message_group": "g"}
        assert send_options(both).passed_on == {**both, "JMSXGroupID": "g"}
        assert send_options(both).group == "g"

        assert send_options({"JMSXGroupID": "a", "message_group": "b"}).passed_on is None
        passed_on = send_options({"JMSXGroupID": "a", "message_group": "b", "x-delay": "5"}).passed_on
        assert passed_on == {"JMSXGroupID": "a", "message_group": "b"}


NAMES = sorted({name for command in COMMANDS for name in INDEX[command]} | {"mine", "x-unknown"})
WORDS = [
    *["", "true", "false", "set", "remove", "classic", "drop-head", "ANYCAST", "/temp-queue/a", "amq.topic", "a = 1"],
    *["0", "1", "-1", "9", "5,0", "60000", "1700000000000", "9" * 19, "9" * 400, "1_0", "١", "\x00", "\n", "\\c"],
]
BLOCKS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(WORDS) | st.text(max_size=40), max_size=12)


def refusal_of(read: Callable[[dict[str, str]], object], headers: dict[str, str]) -> str:
    """What the ERROR says, both halves of it; empty where there is none.  The headers stay as they are."""
    before = list(headers.items())
    said = ""
    try:
        read(headers)
    except NotAllowed as refusal:
        said = f"{refusal}: {refusal.detail}" if refusal.detail else "an ERROR without a reason"
    assert list(headers.items()) == before
    return said


class TestWhateverComes:
    """Nothing but NotAllowed is raised, and it names a header."""

    @given(BLOCKS)
    def test_a_send(self, headers: dict[str, str]) -> None:
        refusal = refusal_of(send_options, headers)
        if refusal:
            assert any(name in refusal for name in headers)
            return
        options = send_options(headers)
        assert 0 <= options.priority <= 9
        assert 0 <= options.delay <= TEN_YEARS
        assert options.time_to_live is None or 0 < options.time_to_live <= TEN_YEARS
        seen = headers if options.passed_on is None else options.passed_on
        assert {name: seen[name] for name in headers if name in seen} == {
            name: value
            for name, value in headers.items()
            if name not in INDEX["SEND"] or INDEX["SEND"][name].row.visible or name in NOT_PASSED_ON
        }

    @given(BLOCKS)
    def test_a_subscribe(self, headers: dict[str, str]) -> None:
        refusal = refusal_of(subscribe_options, headers)
        if refusal:
            assert any(name in refusal for name in headers)
            return
        options = subscribe_options(headers)
        assert options.prefetch is None or options.prefetch >= 0
        assert (options.selector is None) is (options.selector_text == "")

    @given(BLOCKS)
    def test_one_error_for_one_mistake_in_any_order(self, headers: dict[str, str]) -> None:
        for read in READERS.values():
            assert refusal_of(read, headers) == refusal_of(read, dict(reversed(headers.items())))
