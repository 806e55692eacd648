"""The ports: what the broker asks of the connection below a session, and that it asks no more."""

from __future__ import annotations

from gateway.broker import Broker
from gateway.broker.errors import SessionEnded
from gateway.codec import V12, ProtocolError


class Recorder:
    """A carrier that only notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def flush(self) -> None:
        self.asked.append("flush")

    def end(self, error: ProtocolError) -> None:
        self.asked.append(error)


def test_a_carrier_is_asked_to_end_and_never_flushed_by_the_broker_itself() -> None:
    """The broker only lists the outboxes, so that one write takes all that a chunk caused."""
    broker, carrier = Broker(), Recorder()
    session = broker.open_session(V12, "ada", peer="p", transport="tcp", connected_at=0.0, carrier=carrier)
    session.outbox.append(b"x")
    assert (carrier.asked, list(broker.dirty)) == ([], [session.outbox])
    error = SessionEnded("over", "and out", 5)
    session.end(error)
    assert carrier.asked == [error]
    assert broker.end_session(session.id, "enough")
    ended = carrier.asked[-1]
    assert isinstance(ended, SessionEnded)
    assert (str(ended), ended.detail, ended.retry_after) == ("session ended", "enough", None)
    assert broker.sessions == {session.id: session}
    session.close()
    assert not broker.sessions
    session.end(error)
    assert len(carrier.asked) == 2
