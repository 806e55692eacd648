"""Transactions (TXN): all at COMMIT, nothing otherwise."""

from __future__ import annotations

import pytest

from .scene import Scene
from .wire import Peer

requirement = pytest.mark.requirement


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


@requirement("TXN-02")
def test_abort_undoes(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, peer = stomp.watch(queue), stomp.connect()
    begin(peer)
    peer.publish(queue, b"x", {"transaction": "t"})
    abort(peer)
    assert watcher.seen(queue) == []


@requirement("TXN-03", "TXN-04", "ACK-06", "ACK-07")
def test_an_ack_holds_if_its_transaction_is_committed(stomp: Scene) -> None:
    for end, left in ((commit, [b"2"]), (abort, [b"1", b"2"])):
        queue = stomp.queue()
        peer, messages = stomp.holder(queue, b"1", b"2")
        begin(peer)
        peer.ack(messages[0], "t")
        end(peer)
        stomp.end(peer, "reset")
        assert stomp.left_in(queue) == left


@requirement("TXN-05", "TXN-06", "RCP-03", "ERR-02")
def test_the_header_of_a_transaction_begun_is_needed(stomp: Scene) -> None:
    for command in ["BEGIN", "COMMIT", "ABORT"]:
        stomp.refuses(command, {})
        if command != "BEGIN":
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


@requirement("TXN-09", "RCP-03")
def test_begin_with_an_id_in_use(stomp: Scene) -> None:
    peer = stomp.connect()
    begin(peer)
    peer.send("BEGIN", {"transaction": "t", "receipt": "r"})
    peer.refusal()


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
