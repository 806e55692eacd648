"""Transactions (TXN): all at COMMIT, nothing otherwise."""

from __future__ import annotations

import pytest

from .scene import Scene
from .wire import Peer, octets

requirement, columns, parametrize = pytest.mark.requirement, pytest.mark.columns, pytest.mark.parametrize


def begin(peer: Peer, id: str = "t") -> None:
    peer.request("BEGIN", {"transaction": id})


def commit(peer: Peer, id: str = "t") -> None:
    peer.request("COMMIT", {"transaction": id})


def abort(peer: Peer, id: str = "t") -> None:
    peer.request("ABORT", {"transaction": id})


@requirement("TXN-01", "XTR-05")
def test_commit_carries_out_all_in_order(stomp: Scene) -> None:
    first, second = stomp.queue(), stomp.queue()
    watcher, other, peer = stomp.watch(first), stomp.watch(second), stomp.connect()
    begin(peer)
    for number in range(5):
        peer.publish(first, b"%d" % number, {"transaction": "t"})
    peer.publish(second, b"x", {"transaction": "t"})
    peer.barrier()
    assert watcher.seen(first) == []
    assert other.seen(second) == []
    commit(peer)
    assert watcher.seen(first) == [b"0", b"1", b"2", b"3", b"4"]
    assert other.seen(second) == [b"x"]


@requirement("TXN-01", "MSG-06")
def test_a_committed_message_tells_nothing_of_the_transaction(stomp: Scene) -> None:
    topic = stomp.topic()
    watcher, peer = stomp.watch(topic), stomp.connect()
    begin(peer)
    peer.publish(topic, b"x", {"transaction": "t", "receipt": "r", "k": "v"})
    peer.receipt("r")
    commit(peer)
    message = watcher.message()
    assert (message.get("transaction"), message.get("receipt"), message["k"]) == (None, None, "v")


@requirement("TXN-01", "TXN-10")
def test_an_empty_transaction(stomp: Scene) -> None:
    peer = stomp.connect()
    begin(peer)
    commit(peer)
    begin(peer)
    abort(peer)


@requirement("TXN-02")
def test_abort_undoes(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, peer = stomp.watch(queue), stomp.connect()
    begin(peer)
    peer.publish(queue, b"x", {"transaction": "t"})
    abort(peer)
    assert watcher.seen(queue) == []


@requirement("TXN-03", "ACK-07")
def test_a_committed_ack_holds(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2")
    begin(peer)
    peer.ack(messages[0], "t")
    commit(peer)
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == [b"2"]


@requirement("TXN-04", "ACK-06")
def test_an_aborted_ack_does_not_hold(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2")
    begin(peer)
    peer.ack(messages[1], "t")
    abort(peer)
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == [b"1", b"2"]


@requirement("TXN-04", "TXN-03")
def test_an_aborted_ack_can_be_given_again(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, (message,) = stomp.holder(queue, b"1")
    begin(peer)
    peer.ack(message, "t")
    abort(peer)
    peer.ack(message)
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == []


@requirement("TXN-04", "TXN-08")
def test_an_ack_that_was_never_committed_does_not_hold(stomp: Scene) -> None:
    for end in ["disconnect", "close", "reset"]:
        queue = stomp.queue()
        peer, (message,) = stomp.holder(queue, b"1")
        begin(peer)
        peer.ack(message, "t")
        stomp.end(peer, end)  # type: ignore[arg-type]
        assert stomp.left_in(queue) == [b"1"]


@requirement("TXN-04", "UNS-07")
def test_an_aborted_ack_does_not_hold_after_unsubscribe_either(stomp: Scene) -> None:
    """The message is held by nothing but the transaction by then."""
    for end in ["ABORT", "DISCONNECT"]:
        queue = stomp.queue()
        peer, (message,) = stomp.holder(queue, b"1")
        begin(peer)
        peer.ack(message, "t")
        peer.request("UNSUBSCRIBE", {"id": "0"})
        peer.request(end, {"transaction": "t"})
        assert stomp.watch(queue).message().body == b"1"


@requirement("TXN-03", "UNS-07")
def test_a_committed_ack_holds_after_unsubscribe_too(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2")
    begin(peer)
    peer.ack(messages[0], "t")
    peer.request("UNSUBSCRIBE", {"id": "0"})
    commit(peer)
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == [b"2"]


@requirement("TXN-05", "RCP-03", "ERR-02")
def test_the_transaction_header_is_needed(stomp: Scene) -> None:
    for command in ["BEGIN", "COMMIT", "ABORT"]:
        stomp.refuses(command, {})


@requirement("TXN-06", "RCP-03")
def test_an_unknown_transaction(stomp: Scene) -> None:
    for command in ["COMMIT", "ABORT"]:
        stomp.refuses(command, {"transaction": "unknown"})


@requirement("TXN-06", "TXN-10")
def test_a_transaction_ends_once(stomp: Scene) -> None:
    for command in ["COMMIT", "ABORT"]:
        peer = stomp.connect()
        begin(peer)
        commit(peer)
        peer.send(command, {"transaction": "t", "receipt": "r"})
        peer.refusal()


@requirement("TXN-07", "TXN-08")
def test_the_end_of_the_connection_aborts(stomp: Scene) -> None:
    for end in ["disconnect", "close", "reset"]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        begin(peer)
        peer.publish(queue, b"x", {"transaction": "t"})
        stomp.end(peer, end)  # type: ignore[arg-type]
        assert watcher.seen(queue) == []


@requirement("TXN-08", "ERR-04")
def test_an_error_aborts(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, peer = stomp.watch(queue), stomp.connect()
    begin(peer)
    peer.publish(queue, b"x", {"transaction": "t"})
    peer.send("SEND")
    peer.refusal()
    assert watcher.seen(queue) == []


@requirement("TXN-09", "RCP-03")
def test_begin_with_an_id_in_use(stomp: Scene) -> None:
    peer = stomp.connect()
    begin(peer)
    peer.send("BEGIN", {"transaction": "t", "receipt": "r"})
    peer.refusal()


@requirement("TXN-10")
def test_an_id_can_be_used_again(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, peer = stomp.watch(queue), stomp.connect()
    for body, end in ((b"1", commit), (b"2", abort), (b"3", commit)):
        begin(peer)
        peer.publish(queue, body, {"transaction": "t"})
        end(peer)
    assert watcher.seen(queue) == [b"1", b"3"]


@requirement("TXN-11")
def test_ids_belong_to_the_connection(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, one, two = stomp.watch(queue), stomp.connect(), stomp.connect()
    begin(one)
    begin(two)
    one.publish(queue, b"one", {"transaction": "t"})
    two.publish(queue, b"two", {"transaction": "t"})
    abort(one)
    commit(two)
    assert watcher.seen(queue) == [b"two"]
    stranger = stomp.connect()
    begin(two)
    stranger.send("COMMIT", {"transaction": "t", "receipt": "r"})
    stranger.refusal()


@requirement("TXN-12")
def test_transactions_do_not_touch_each_other(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, peer = stomp.watch(queue), stomp.connect()
    for id in ("a", "b", "c"):
        begin(peer, id)
        peer.publish(queue, id.encode(), {"transaction": id})
    peer.put(queue, b"plain")
    assert watcher.seen(queue) == [b"plain"]
    abort(peer, "a")
    commit(peer, "b")
    assert watcher.seen(queue) == [b"b"]
    commit(peer, "c")
    assert watcher.seen(queue) == [b"c"]


@requirement("TXN-12", "TXN-03", "TXN-01")
def test_sends_and_acks_in_one_transaction(stomp: Scene) -> None:
    """The usual worker: take one, send one, acknowledge, all or nothing."""
    source, target = stomp.queue(), stomp.queue()
    peer, messages = stomp.holder(source, b"1", b"2")
    begin(peer, "done")
    peer.publish(target, b"result 1", {"transaction": "done"})
    peer.ack(messages[0], "done")
    commit(peer, "done")
    begin(peer, "undone")
    peer.publish(target, b"result 2", {"transaction": "undone"})
    peer.ack(messages[1], "undone")
    stomp.end(peer, "reset")
    assert stomp.left_in(source) == [b"2"]
    assert stomp.left_in(target) == [b"result 1"]


@requirement("TXN-12")
def test_a_whole_transaction_in_one_write(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, peer = stomp.watch(queue), stomp.connect()
    transaction = {"transaction": "t"}
    one = octets("BEGIN", transaction) + octets("SEND", {"destination": queue} | transaction, b"x")
    peer.raw((one + octets("COMMIT", transaction) + one + octets("ABORT", transaction)) * 2)
    peer.barrier()
    assert watcher.seen(queue) == [b"x", b"x"]


@requirement("TXN-13")
def test_an_aborted_nack_did_not_happen(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2", ack="client-individual")
    begin(peer)
    peer.nack(messages[0], "t")
    abort(peer)
    peer.ack(messages[0])
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == [b"2"]


@requirement("TXN-13", "NAK-01", "NAK-03")
def test_a_nack_happens_at_commit(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, (message,) = stomp.holder(queue, b"1", ack="client-individual")
    begin(peer)
    peer.nack(message, "t")
    peer.barrier()
    assert not peer.inbox
    commit(peer)
    assert peer.message()["redelivered"] == "true"


@requirement("TXN-14", "TXN-13")
def test_settling_in_an_unknown_transaction(stomp: Scene) -> None:
    for command in ("ACK",) if stomp.version == "1.0" else ("ACK", "NACK"):
        queue = stomp.queue()
        peer, (message,) = stomp.holder(queue, b"x")
        peer.send(command, {**peer.settlement(message, "unknown"), "receipt": "r"})
        peer.refusal()
        assert stomp.left_in(queue) == [b"x"]
