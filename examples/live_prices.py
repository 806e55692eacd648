"""Live prices for a slow reader: it gets the newest price of each symbol, and none that is out of date.

    GATEWAY_CONFIG=live_prices.toml gateway serve
    python live_prices.py

A publisher sends 3,000 prices of three symbols within about a second.  A reader takes 50 ms for each, and says by ACK
that it is ready for the next.  Of the prices of one symbol that wait for it, the gateway keeps only the last one (the
policy in live_prices.toml): the reader skips most of them, the publisher is never held back, and the last price of each
symbol arrives.  Then the program ends.
"""

import queue
import threading
import time

import stomp

SYMBOLS = ["ACME", "DUFF", "HOOLI"]
ROUNDS = 1000


class Reader(stomp.ConnectionListener):
    """The prices are read in the main thread: this one must stay free."""

    def __init__(self):
        self.messages = queue.Queue()
        self.subscribed = threading.Event()

    def on_receipt(self, receipt):
        self.subscribed.set()

    def on_message(self, message):
        self.messages.put(message)

    def on_error(self, error):
        print(f"ERROR: {error.headers['message']}: {error.body}")


def connect(listener):
    connection = stomp.Connection12([("127.0.0.1", 61613)], heartbeats=(10_000, 10_000))
    connection.set_listener("reader", listener)
    connection.connect(wait=True)
    return connection


def publish():
    connection = connect(stomp.ConnectionListener())
    for count in range(1, ROUNDS + 1):
        for symbol in SYMBOLS:
            price = f"{count / 100:.2f}"
            connection.send(f"/topic/prices.{symbol}", price, headers={"symbol": symbol, "count": str(count)})
        time.sleep(0.001)
    connection.disconnect()


reader = Reader()
connection = connect(reader)
connection.subscribe("/topic/prices.*", id="1", ack="client-individual", headers={"prefetch-count": "1"}, receipt="1")
reader.subscribed.wait(10)
threading.Thread(target=publish, daemon=True).start()

read, counts = 0, dict.fromkeys(SYMBOLS, 0)
while min(counts.values()) < ROUNDS:
    message = reader.messages.get(timeout=10)
    symbol, count = message.headers["symbol"], int(message.headers["count"])
    print(f"{symbol} {message.body}, {count - counts[symbol] - 1} prices skipped")
    read, counts[symbol] = read + 1, count
    time.sleep(0.05)
    connection.ack(message.headers["ack"])
print(f"read {read} of {ROUNDS * len(SYMBOLS)} prices, and the last one of each symbol")
connection.disconnect()
