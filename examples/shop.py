"""A shop's traffic, to have something to look at: orders, prices, offers, and all that goes wrong with them.

    python shop.py FOLDER [--messages 10000] [--rate 500]

It starts a gateway of its own in that folder, with shop.toml, which has a journal.  (Where STOMP_PORT says where one
is, it takes that one.)  What happens then, each role a client:

    customers   send orders, some of them in transactions, of which some are aborted
    packers     take them: most are packed (ACK), some at the second attempt (NACK first), and some never: dead letters
    complaints  reads the dead letters
    market      sends prices to a topic, and offers that are good for a moment only
    windows     show the prices
    collector   takes offers, too slowly: the rest of them expires
    sleeper     takes messages and acknowledges none

At the end it prints what the clients counted, as JSON.  What the journal, the archive and the jobs of `gateway
pipeline` say must be the same.
"""

import argparse
import collections
import contextlib
import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import stomp

HERE = Path(__file__).parent
ORDERS, DEAD, OFFERS, PRICES, IDLE = (
    *("/queue/shop.orders", "/queue/dlq.shop.orders", "/queue/shop.offers", "/topic/shop.prices", "/queue/shop.idle"),
)
WINDOWS = 2
# Of 100 messages.
SHARES = {"orders": 60, "prices": 30, "offers": 10}
# Which of the orders are packed at the second attempt only, and which never.
SHAKY, IMPOSSIBLE = 20, 50
# An order in 500 begins a transaction of five; every third of these is aborted.
TRANSACTION_EVERY, TRANSACTION = 500, 5
OFFER_MS = 300
PATIENCE = 120  # seconds for the last messages


class Client(stomp.ConnectionListener):
    """A connection, and what it counts: (destination, event) -> messages."""

    def __init__(self, port, counts, on_message=None):
        self.counts = counts
        self.settle = on_message
        self.failed = None
        self.connection = stomp.Connection12([("127.0.0.1", port)], heartbeats=(10_000, 10_000))
        self.connection.set_listener("", self)
        self.connection.connect("shop", "none", wait=True)
        self.send = self.connection.send

    def on_message(self, frame):
        # The destination as it was subscribed is that of the subscription's id.
        again = frame.headers.get("redelivered") == "true"
        self.counts[frame.headers["subscription"], "redelivered" if again else "delivered"] += 1
        if self.settle is not None:
            self.settle(self, frame)

    def on_error(self, frame):
        self.failed = f"{frame.headers['message']}: {frame.body}"

    def subscribe(self, destination, ack="client-individual", **headers):
        self.connection.subscribe(destination, id=destination, ack=ack, headers=headers)

    def done(self, frame):
        self.counts[frame.headers["subscription"], "acked"] += 1
        self.connection.ack(frame.headers["ack"])

    def fail(self, frame):
        self.counts[frame.headers["subscription"], "nacked"] += 1
        self.connection.nack(frame.headers["ack"], reason="out of stock")

    def close(self):
        """Say goodbye; on return the gateway has read all that was sent before."""
        read = threading.Event()
        self.on_receipt = lambda frame: read.set()
        self.connection.disconnect(receipt="goodbye")
        if not read.wait(PATIENCE) or self.failed:
            sys.exit(f"The gateway ended a connection: {self.failed}")


class Pace:
    """So many messages a second, and no more."""

    def __init__(self, rate):
        self.rate, self.sent, self.began = rate, 0, time.monotonic()

    def wait(self):
        self.sent += 1
        ahead = self.sent / self.rate - (time.monotonic() - self.began)
        if ahead > 0.02:
            time.sleep(ahead)


# The roles.  Each process has some of them, and puts what they counted into a queue.


def customers(port, messages, rate, results, _goal):
    counts, pace = collections.Counter(), Pace(rate)
    client = Client(port, counts)
    aborted = 0
    number = 0
    while number < messages:
        body = json.dumps({"order": number, "article": f"A-{number % 97}", "pieces": number % 7 + 1})
        if number % TRANSACTION_EVERY or number + TRANSACTION > messages:
            client.send(ORDERS, body, content_type="application/json", number=number)
            counts[ORDERS, "accepted"] += 1
            counts[ORDERS, "octets"] += len(body)
            number += 1
            pace.wait()
            continue
        name = client.connection.begin()
        for place in range(TRANSACTION):
            # What is aborted is sent once more, in the next one.
            client.send(ORDERS, body, transaction=name, content_type="application/json", number=number + place)
        if number // TRANSACTION_EVERY % 3 == 2 and not aborted:
            client.connection.abort(name)
            aborted = TRANSACTION
            continue
        client.connection.commit(name)
        aborted = 0
        counts[ORDERS, "accepted"] += TRANSACTION
        counts[ORDERS, "octets"] += len(body) * TRANSACTION
        number += TRANSACTION
    client.close()
    results.put(counts)


def packers(port, _messages, _rate, results, goal):
    """Ends when each order is packed, or a dead letter."""
    counts = collections.Counter()

    def pack(client, frame):
        number = int(frame.headers["number"])
        again = frame.headers.get("redelivered") == "true"
        if number % IMPOSSIBLE == 7 or (number % SHAKY == 3 and not again):
            client.fail(frame)
        else:
            client.done(frame)

    def complain(client, frame):
        client.done(frame)

    some = [Client(port, counts_of, pack) for counts_of in [collections.Counter() for _ in range(2)]]
    for client in some:
        client.subscribe(ORDERS, **{"prefetch-count": 200})
    complaints = Client(port, counts, complain)
    complaints.subscribe(DEAD)
    deadline = time.monotonic() + PATIENCE
    settled = -1
    while not goal.value or settled < goal.value:
        now = sum(each.counts[ORDERS, "acked"] for each in some) + counts[DEAD, "acked"]
        if now > settled:
            settled, deadline = now, time.monotonic() + PATIENCE
        if time.monotonic() > deadline or any(each.failed for each in (*some, complaints)):
            sys.exit(f"The packers wait in vain: {settled} of {goal.value} orders are done.")
        time.sleep(0.05)
    for client in (*some, complaints):
        client.close()
        if client.counts is not counts:
            counts.update(client.counts)
    results.put(counts)


def market(port, messages, rate, results, _goal):
    counts, pace = collections.Counter(), Pace(rate)
    share = SHARES["offers"] / (SHARES["offers"] + SHARES["prices"])
    too_long = max(0.005, 2 / (rate * share))  # for every second offer
    shown = [collections.Counter() for _ in range(WINDOWS)]
    windows = [Client(port, each) for each in shown]
    for window in windows:
        window.subscribe(PRICES, ack="auto")
        until_subscribed(window)

    def collect(client, frame):
        time.sleep(too_long)
        client.done(frame)

    collected, slept = collections.Counter(), collections.Counter()
    collector, sleeper = Client(port, collected, collect), Client(port, slept)
    collector.subscribe(OFFERS, **{"prefetch-count": 1})
    sleeper.subscribe(IDLE)
    client = Client(port, counts)
    offers = int(messages * share)
    for number in range(3):
        send(client, IDLE, f"wake up {number}")
    every = messages / max(offers, 1)
    sent = 0
    for number in range(messages):
        if sent < offers and number >= sent * every:
            sent += 1
            send(client, OFFERS, f"offer {number}", expires=str(int(time.time() * 1000) + OFFER_MS))
        else:
            send(client, PRICES, json.dumps({"article": f"A-{number % 97}", "price": number % 1000}))
        pace.wait()
    client.close()
    prices = counts[PRICES, "accepted"]
    deadline = time.monotonic() + PATIENCE
    while any(each[PRICES, "delivered"] < prices for each in shown) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(3 * OFFER_MS / 1000)  # the last offers are taken, or expire
    for each in (collector, sleeper, *windows):
        each.close()
    for each in (*shown, collected, slept):
        counts.update(each)
    counts[OFFERS, "expired"] = counts[OFFERS, "accepted"] - collected[OFFERS, "acked"]
    results.put(counts)


def send(client, destination, body, **headers):
    client.send(destination, body, **headers)
    client.counts[destination, "accepted"] += 1
    client.counts[destination, "octets"] += len(body)


def until_subscribed(client):
    """A topic gives what comes from now on: nothing may be sent before."""
    subscribed = threading.Event()
    client.on_receipt = lambda frame: subscribed.set()
    client.connection.begin(transaction="ping", receipt="ping")
    client.connection.abort("ping")
    if not subscribed.wait(PATIENCE):
        sys.exit("The gateway does not answer.")


# The gateway, and all of it together.


@contextlib.contextmanager
def gateway(folder):
    """Where the gateway listens: that of STOMP_PORT, or one that runs as long as the block."""
    if port := os.environ.get("STOMP_PORT"):
        yield int(port)
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "shop.toml", folder / "gateway.toml")
    ports = [free_port() for _ in range(3)]
    names = ("GATEWAY_TCP", "GATEWAY_WEBSOCKET", "GATEWAY_HTTP")
    listening = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway", "serve"], cwd=folder, env=os.environ | listening, stderr=log, stdout=log
        )
        try:
            wait_for(ports[0], process)
            yield ports[0]
        finally:
            process.terminate()
            process.wait(30)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port, process):
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit("The gateway does not start; gateway.log says why.")


def run(port, messages, rate):
    """All roles, to their ends: what they counted."""
    context = multiprocessing.get_context("spawn")
    results, goal = context.Queue(), context.Value("l", 0)
    orders = messages * SHARES["orders"] // 100
    parts = {customers: (orders, rate * 0.6), packers: (0, 0), market: (messages - orders, rate * 0.4)}
    processes = [
        context.Process(target=role, args=(port, *part, results, goal), daemon=True) for role, part in parts.items()
    ]
    for process in processes:
        process.start()
    goal.value = orders
    counts = collections.Counter()
    for _ in processes:
        while results.empty():
            if any(process.exitcode for process in processes):
                sys.exit("A client failed; its words are above.")
            time.sleep(0.1)
        counts.update(results.get())
    for process in processes:
        process.join()
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    arguments = parser.parse_args()
    print(f"{arguments.messages:,} messages, {arguments.messages / arguments.rate:.0f} s ...", file=sys.stderr)
    with gateway(arguments.folder) as port:
        counts = run(port, arguments.messages, arguments.rate)
    counts[ORDERS, "dead_lettered"] = counts[DEAD, "delivered"]
    table = collections.defaultdict(dict)
    for (destination, event), count in sorted(counts.items()):
        table[destination][event] = count
    print(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
