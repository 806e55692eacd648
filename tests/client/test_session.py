"""The session of the async client, without a connection."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.client.errors import ConnectionLost, ServerError
from gateway.client.session import REPLIES, ClientOperation, ClientSession, Command
from gateway.client.subscriptions import ReceivedMessage, SubscriptionState

from .fake_server import CONNECT, FakeServer, cut, opened


def sending(body: bytes, dedup: str = "d", *, survives: bool = True, is_receipted: bool = True) -> ClientOperation:
    frame: Command = ("SEND", {"destination": "/queue/a", "dedup-id": dedup}, body)
    return ClientOperation((frame,), survives=survives, is_receipted=is_receipted)


def subscribed(
    session: ClientSession,
    server: FakeServer,
    destination: str = "/queue/a",
    ack: str = "client-individual",
    **more: str,
) -> SubscriptionState:
    state = SubscriptionState(session.name(), destination, ack, 10, more, None)
    session.subscribe(state)
    server.work(session)
    server.answer(session)
    assert state.is_confirmed
    return state


def deliver(
    session: ClientSession, server: FakeServer, state: SubscriptionState, body: bytes = b"1"
) -> ReceivedMessage:
    server.message(session, state.name, body)
    return session.next_of(state)


class TestOperations:
    def test_done_at_the_receipt(self) -> None:
        session, server = opened()
        operation = sending(b"tea")
        session.submit(operation)
        server.work(session)
        assert not operation.is_done
        server.answer(session)
        assert operation.is_done
        assert operation.error is None

    def test_without_a_receipt_done_when_written(self) -> None:
        session, server = opened()
        operation = sending(b"tea", is_receipted=False)
        session.submit(operation)
        assert operation.is_done
        server.work(session)
        assert server.carried_out == [("d", b"tea")]

    def test_it_waits_for_the_connection(self) -> None:
        session, server = ClientSession("there"), FakeServer()
        operation = sending(b"tea")
        session.submit(operation)
        server.serve(session)
        assert operation.is_done

    def test_the_waker_is_called(self) -> None:
        session, server = opened()
        operation, calls = sending(b"tea"), []
        operation.watch(lambda: calls.append(1))
        session.submit(operation)
        server.serve(session)
        assert calls == [1]
        operation.watch(lambda: calls.append(2))
        assert calls == [1, 2]

    def test_a_full_outbox_holds_back_the_next(self) -> None:
        session, server = opened()
        operations = [sending(bytes(700_000), is_receipted=False) for _ in range(3)]
        for each in operations:
            session.submit(each)
        assert [each.is_done for each in operations] == [True, True, False]
        server.work(session)
        assert operations[2].is_done

    def test_a_withdrawn_one_is_not_sent(self) -> None:
        session, server = opened()
        cut(session)
        operation = sending(b"tea")
        session.submit(operation)
        session.withdraw(operation)
        server.serve(session)
        assert server.carried_out == []

    def test_a_withdrawn_one_is_not_sent_again(self) -> None:
        session, server = opened()
        operation = sending(b"tea")
        session.submit(operation)
        server.work(session)
        session.withdraw(operation)
        server.answer(session)
        cut(session)
        server.serve(session)
        assert server.carried_out == [("d", b"tea")]


class TestLoss:
    def test_what_is_not_confirmed_is_sent_again_in_order(self) -> None:
        session, server = opened()
        operations = [sending(b"%d" % number, f"d{number}") for number in range(4)]
        for each in operations[:3]:
            session.submit(each)
        server.work(session)
        server.answer(session, 1)
        cut(session)
        session.submit(operations[3])
        server.carried_out.clear()
        server.serve(session)
        assert server.carried_out == [("d1", b"1"), ("d2", b"2"), ("d3", b"3")]
        assert all(each.is_done and each.error is None for each in operations)

    def test_what_must_not_be_sent_twice_fails(self) -> None:
        session, server = opened()
        operation = sending(b"tea", survives=False)
        session.submit(operation)
        server.work(session)
        cut(session)
        assert isinstance(operation.error, ConnectionLost)
        assert str(operation.error) == "gone; the server may have carried out the SEND"

    def test_what_was_not_sent_yet_may_be_sent(self) -> None:
        session, server = opened()
        cut(session)
        operation = sending(b"tea", survives=False)
        session.submit(operation)
        server.serve(session)
        assert operation.error is None

    def test_subscriptions_come_first_and_with_the_same_name(self) -> None:
        session, server = opened()
        state = subscribed(session, server, colour="red")
        cut(session)
        session.submit(sending(b"tea"))
        server.serve(session)
        assert [frame.command for frame in server.frames] == ["SUBSCRIBE", "SEND"]
        assert server.frames[0].headers["id"] == state.name
        assert server.frames[0].headers["colour"] == "red"

    def test_failing_for_good(self) -> None:
        session, server = opened()
        state = subscribed(session, server)
        operations = [sending(b"tea"), sending(b"milk")]
        session.submit(operations[0])
        server.work(session)
        cut(session)
        session.submit(operations[1])
        session.fail(ConnectionLost("for good"))
        assert [str(each.error) for each in operations] == ["for good"] * 2
        assert str(state.error) == "for good"


class TestRefusals:
    def test_that_name_the_frame(self) -> None:
        """The others come again, and are not refused."""
        session, server = opened()
        server.poison, server.names_receipts = {b"bad"}, True
        operations = [sending(body, body.decode()) for body in (b"a", b"bad", b"c")]
        for each in operations:
            session.submit(each)
        server.serve(session)
        assert [type(each.error) for each in operations] == [type(None), ServerError, type(None)]
        assert str(operations[1].error) == "there says: no"

    def test_that_name_no_frame(self) -> None:
        """Those that wait go one by one, until the one is found that is refused twice."""
        session, server = opened()
        server.poison = {b"bad"}
        operations = [sending(body, body.decode()) for body in (b"a", b"bad", b"c")]
        for each in operations:
            session.submit(each)
        server.serve(session)
        assert [type(each.error) for each in operations] == [type(None), ServerError, type(None)]
        assert [body for _, body in server.carried_out][-1] == b"c"

    def test_of_a_subscription(self) -> None:
        session, server = opened()
        state = SubscriptionState("s", "/queue/a", "auto", 1, {}, None)
        session.subscribe(state)
        server.work(session)
        receipt = server.frames[0].headers["receipt"]
        server.error(session, message="not allowed", receipt_id=receipt)
        cut(session)
        assert isinstance(state.error, ServerError)
        server.serve(session)
        assert server.frames == []

    def test_of_the_login_are_final(self) -> None:
        session = ClientSession("there")
        session.begin(CONNECT)
        FakeServer().error(session, message="login refused")
        assert session.is_final
        assert isinstance(session.ended, ServerError)

    @pytest.mark.parametrize("message", ["too many connections", "memory is full"])
    def test_for_want_of_room_are_not(self, message: str) -> None:
        session = ClientSession("there")
        session.begin(CONNECT)
        FakeServer().error(session, message=message)
        assert not session.is_final
        assert isinstance(session.ended, ConnectionLost)

    def test_with_retry_after_refuse_nothing(self) -> None:
        session, server = opened()
        operation = sending(b"tea")
        session.submit(operation)
        server.work(session)
        server.error(session, message="server is shutting down", retry_after="2500", receipt_id="r1")
        assert session.retry_after == 2.5
        cut(session)
        server.serve(session)
        assert operation.is_done
        assert operation.error is None

    def test_a_client_id_of_another_program_is_final(self) -> None:
        session, server = opened()
        server.error(session, message="client-id taken over")
        assert session.is_final

    @pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n\0", b"RECEIPT\nreceipt-id:a\n\n\0"])
    def test_another_protocol(self, answer: bytes) -> None:
        session = ClientSession("there")
        session.begin(CONNECT)
        session.receive(answer)
        assert session.is_final
        assert "answered CONNECT with" in str(session.ended)

    def test_bytes_that_are_no_frame(self) -> None:
        session, _ = opened()
        session.receive(b"MESSAGE\nno colon\n\n\0")
        assert str(session.ended).startswith("there sent what is no frame: ")
        assert not session.is_open


class TestMessages:
    def test_ack_and_nack_once(self) -> None:
        session, server = opened()
        state = subscribed(session, server)
        first, second = deliver(session, server, state, b"1"), deliver(session, server, state, b"2")
        for _ in range(2):
            session.ack(first)
            session.nack(second, {"requeue": "false"})
        session.nack(first, {})
        server.frames.clear()
        server.work(session)
        assert [(frame.command, frame.headers) for frame in server.frames] == [
            ("ACK", {"id": "ack-1"}),
            ("NACK", {"id": "ack-2", "requeue": "false"}),
        ]

    def test_in_mode_auto_none_is_needed(self) -> None:
        session, server = opened()
        delivery = deliver(session, server, subscribed(session, server, ack="auto"))
        session.ack(delivery)
        assert session.take() == []

    def test_one_of_an_earlier_connection_is_not_acknowledged(self) -> None:
        session, server = opened()
        delivery = deliver(session, server, subscribed(session, server))
        cut(session)
        server.serve(session)
        assert session.is_lost(delivery)
        session.ack(delivery)
        assert session.take() == []
        with pytest.raises(ConnectionLost):
            session.acks_of([delivery], "t")

    def test_unread_ones_are_dropped_if_they_come_again(self) -> None:
        session, server = opened()
        kept, dropped = subscribed(session, server, "/topic/a", "auto"), subscribed(session, server)
        server.message(session, kept.name, b"1")
        server.message(session, dropped.name, b"2")
        cut(session)
        assert [len(each.unread) for each in (kept, dropped)] == [1, 0]
        assert session.unread == kept.unread[0].size
        session.next_of(kept)
        assert session.unread == 0

    def test_of_no_subscription(self) -> None:
        session, server = opened()
        state = subscribed(session, server)
        server.message(session, state.name, b"1")
        operation = session.unsubscribe(state)
        assert session.unread == 0
        server.message(session, state.name, b"2")
        assert session.unread == 0
        server.serve(session)
        assert operation is not None
        assert operation.is_done
        assert session.unsubscribe(state) is None


class TestQuestions:
    def ask(self, session: ClientSession) -> ClientOperation:
        operation = ClientOperation((("SEND", {"reply-to": REPLIES, "correlation-id": "q"}, b""),), question="q")
        session.submit(operation)
        return operation

    def test_the_answer(self) -> None:
        session, server = opened()
        operation = self.ask(session)
        server.work(session)
        assert [frame.command for frame in server.frames] == ["SEND"]
        server.message(session, REPLIES, b"no", **{"correlation-id": "other"})
        assert not operation.is_done
        server.message(session, REPLIES, b"yes", **{"correlation-id": "q"})
        assert operation.answer is not None
        assert operation.answer.body == b"yes"

    def test_activemq_wants_a_subscription_once(self) -> None:
        session, server = opened(FakeServer("ActiveMQ/5.18.3"))
        self.ask(session)
        self.ask(session)
        server.work(session)
        assert [frame.command for frame in server.frames] == ["SUBSCRIBE", "SEND", "SEND"]
        assert server.frames[0].headers["destination"] == REPLIES

    def test_a_loss_takes_the_answer_away(self) -> None:
        session, server = opened()
        operation = self.ask(session)
        server.work(session)
        cut(session)
        assert isinstance(operation.error, ConnectionLost)


def test_heart_beats_only_in_silence() -> None:
    session, _ = opened()
    session.beat()
    session.beat()
    assert session.take() == [b"\n"]


BODIES = [b"%d" % number for number in range(8)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from(BODIES)),
        st.tuples(st.just("work"), st.none()),
        st.tuples(st.just("answer"), st.integers(0, 3)),
        st.tuples(st.just("cut"), st.none()),
    ),
    max_size=40,
)


@given(STEPS, st.sets(st.sampled_from(BODIES), max_size=3), st.booleans())
@example([("submit", b"1"), ("submit", b"0"), ("work", None), ("submit", b"0")], {b"1"}, False)
def test_every_operation_is_carried_out_or_refused(
    steps: list[tuple[str, object]], poison: set[bytes], names_receipts: bool
) -> None:
    """Over any losses: the refused ones never happened, the others did, in order, and doubles have one dedup-id."""
    session, server = opened()
    server.poison, server.names_receipts = poison, names_receipts
    operations: list[tuple[str, ClientOperation]] = []
    for step, value in steps:
        if step == "submit":
            assert isinstance(value, bytes)
            name = session.name()
            operations.append((name, sending(value, name)))
            session.submit(operations[-1][1])
        elif step == "work" and session.is_open:
            server.work(session)
        elif step == "answer" and session.is_open:
            assert isinstance(value, int)
            server.answer(session, value)
        elif step == "cut":
            cut(session)
            server.connect(session)
    server.serve(session, 500)
    assert all(operation.is_done for _, operation in operations)
    refused = {name for name, operation in operations if operation.error is not None}
    assert refused == {name for name, operation in operations if operation.frames[0][2] in poison}
    first_times = list(dict.fromkeys(name for name, _ in server.carried_out))
    assert first_times == [name for name, _ in operations if name not in refused]
