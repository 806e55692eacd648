"""Anything that clients may do, in any order, on a few destinations; after each step the broker is what the model says.

No message is lost, none is given to two who could both consume it, none is delivered again without being marked, each
consumer sees each publisher's messages in order, and the accounts are right at every step and zero in the end.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gateway.codec import V10

from .client import ALL, Client, Scene
from .model import Consumer, Copy, Model, Transaction, cost_of

QUEUES = ["/queue/a", "/queue/b"]
DESTINATIONS = [*QUEUES, *QUEUES, "/topic/a"]
MODES = ["client", "auto", "client-individual"]
# Three of these fill the window of an outbox.
LARGE = 3_000


class Clients(RuleBasedStateMachine):
    """Up to four clients of a broker with small windows: three messages unacknowledged, 8 KiB unread.

    One rule, which draws what to do from what is possible: with a rule for each, ACKs would be too rare.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(max_unacknowledged=3, max_outbound=64 * 1024)
        self.model = Model(self.scene)
        self.count = 0

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        for _ in range(3):
            self.connect(data)
        for _ in range(data.draw(st.integers(1, 5))):
            self.subscribe(data)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        model, clients = self.model, self.clients
        stalled = sum(client.stalled for client in clients)
        possible = {
            self.connect: len(clients) < 4,
            self.leave: len(clients) > 1,
            self.stall: stalled < len(clients),
            self.resume: stalled > 0,
            self.subscribe: True,
            self.unsubscribe: bool(model.consumers),
            self.publish: True,
            self.settle: bool(self.settleable),
            self.begin: len(model.transactions) < 3,
            self.end: bool(model.transactions),
        }
        often = [self.publish, self.settle] * 3
        data.draw(st.sampled_from([each for each in [*often, *possible] if possible[each]]))(data)

    @invariant()
    def agrees(self) -> None:
        assert not any(client.failures for client in self.scene.clients)
        self.model.observe()

    def teardown(self) -> None:
        self.scene.finish()

    # what there is

    @property
    def clients(self) -> list[Client]:
        return [client for client in self.scene.clients if not client.closed]

    @property
    def settleable(self) -> list[Copy]:
        return [copy for each in self.model.consumers for copy in each.ledger if copy.transaction is None]

    def transaction(self, data: st.DataObject, client: Client) -> Transaction | None:
        """One of the client's, more often than none if it has any."""
        own = [each for each in self.model.transactions if each.client is client]
        return data.draw(st.sampled_from([None, *own, *own]))

    def next(self) -> int:
        """A number for a body or an id that nobody had before."""
        self.count += 1
        return self.count

    # what can be done

    def connect(self, data: st.DataObject) -> None:
        self.scene.connect(data.draw(st.sampled_from(ALL))).stalled = data.draw(st.booleans())

    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        graceful = data.draw(st.booleans())
        self.model.leave(client, taken=graceful)
        if graceful:
            client.disconnect()
            # What lay in the outbox comes back behind the rest: it might still have been written.
            self.model.observe(in_order=False)
        else:
            client.drop()

    def stall(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([client for client in self.clients if not client.stalled])).stalled = True

    def resume(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if client.stalled]))
        self.model.written(client)
        client.resume()

    def subscribe(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        destination = data.draw(st.sampled_from(DESTINATIONS))
        mode = data.draw(st.sampled_from(MODES if client.version.nack else MODES[:2]))
        id = str(self.next())
        self.model.subscribe(client, id, destination, mode)
        client.subscribe(destination, id, mode)

    def unsubscribe(self, data: st.DataObject) -> None:
        consumer: Consumer = data.draw(st.sampled_from(self.model.consumers))
        self.model.unsubscribe(consumer)
        consumer.client.unsubscribe(consumer.id)

    def publish(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        destination = data.draw(st.sampled_from(DESTINATIONS))
        large = destination in QUEUES and data.draw(st.booleans())
        transaction = self.transaction(data, client)
        headers = {} if transaction is None else {"transaction": transaction.name}
        for _ in range(data.draw(st.integers(1, 5))):
            body = b"%d." % self.next() + b" " * (LARGE if large else 0)
            cost = cost_of(client, {"destination": destination} | headers, body)
            self.model.publish(destination, body, cost, transaction)
            client.publish(destination, body, **headers)

    def settle(self, data: st.DataObject) -> None:
        copy = data.draw(st.sampled_from(self.settleable))
        consumer, message = copy.at, copy.message
        assert consumer is not None
        assert message is not None
        client = consumer.client
        transaction = self.transaction(data, client)
        headers = {} if transaction is None else {"transaction": transaction.name}
        acknowledged = client.version is V10 or data.draw(st.booleans())
        rivals = self.model.rivals(consumer)
        copies = self.model.covered(copy)
        self.model.settle(copies, acknowledged, transaction)
        (client.ack if acknowledged else client.nack)(message, **headers)
        if not acknowledged and transaction is None and len(copies) == 1 and rivals:
            self.model.observe()
            assert copy.at in rivals, "another consumer had room and did not get it"

    def begin(self, data: st.DataObject) -> None:
        transaction = Transaction(data.draw(st.sampled_from(self.clients)), str(self.next()))
        self.model.transactions.append(transaction)
        transaction.client.begin(transaction.name)

    def end(self, data: st.DataObject) -> None:
        transaction: Transaction = data.draw(st.sampled_from(self.model.transactions))
        if data.draw(st.booleans()):
            self.model.commit(transaction)
            transaction.client.commit(transaction.name)
            self.model.observe(in_order=False)
        else:
            self.model.abort(transaction)
            transaction.client.abort(transaction.name)


@pytest.mark.slow
@pytest.mark.timeout(400)  # when it fails, the search for a short example may take 300 s
def test_the_broker_does_what_the_model_says() -> None:
    run_state_machine_as_test(
        Clients,
        settings=settings(
            max_examples=400,
            stateful_step_count=50,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
