"""Live prices for a slow reader: it gets the newest price of each symbol, and none that is out of date.

    GATEWAY_CONFIG=live_prices.toml gateway serve
    python live_prices.py

A publisher sends 3,000 prices of three symbols within about a second.  A reader takes 50 ms for each, and says by ACK
that it is ready for the next.  Of the prices of one symbol that wait for it, the gateway keeps only the last one (the
policy in live_prices.toml): the reader skips most of them, the publisher is never held back, and the last price of each
symbol arrives.  Then the program ends.  On a gateway without that policy the reader would get all of them, minutes
late; the program says so after some seconds, and ends.

STOMP_HOST and STOMP_PORT say where the gateway is, if not at 127.0.0.1:61613.
"""

import os
import queue
import sys
import threading
import time

import stomp

BROKER = (os.environ.get("STOMP_HOST", "127.0.0.1"), int(os.environ.get("STOMP_PORT", "61613")))
SYMBOLS = ["ACME", "DUFF", "HOOLI"]
ROUNDS = 1000
PATIENCE = 5  # seconds without a price, or without a skipped one, after which it gives up
HINT = "start the gateway in this folder, with GATEWAY_CONFIG=live_prices.toml gateway serve"


class Inbox(stomp.ConnectionListener):
    """The prices are read in the main thread: this one must stay free to read, and an exception would end it."""

    def __init__(self):
        self.frames = queue.SimpleQueue()
        self.subscribed = threading.Event()

    def on_receipt(self, receipt):
        self.subscribed.set()

    def on_message(self, message):
        self.frames.put(message)

    def on_error(self, error):
        print(f"ERROR: {error.headers['message']}: {error.body}", file=sys.stderr)

    def on_disconnected(self):
        self.frames.put(None)


def connect(listener):
    connection = stomp.Connection12([BROKER], heartbeats=(10_000, 10_000))
    connection.set_listener("inbox", listener)
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


def next_price():
    try:
        message = inbox.frames.get(timeout=PATIENCE)
    except queue.Empty:
        sys.exit(f"No price for {PATIENCE} s: {HINT}")
    return message or sys.exit("The connection is lost.")


inbox = Inbox()
connection = connect(inbox)
connection.subscribe("/topic/prices.*", id="1", ack="client-individual", headers={"prefetch-count": "1"}, receipt="1")
inbox.subscribed.wait(PATIENCE)
threading.Thread(target=publish, daemon=True).start()

started = time.monotonic()
read, counts = 0, dict.fromkeys(SYMBOLS, 0)
while min(counts.values()) < ROUNDS:
    message = next_price()
    symbol, count = message.headers["symbol"], int(message.headers["count"])
    print(f"{symbol} {message.body}, {count - counts[symbol] - 1} prices skipped")
    read, counts[symbol] = read + 1, count
    if read == sum(counts.values()) and time.monotonic() - started > PATIENCE:
        sys.exit(f"No price was skipped within {PATIENCE} s: the gateway does not have the policy; {HINT}")
    time.sleep(0.05)
    connection.ack(message.headers["ack"])
print(f"read {read} of {ROUNDS * len(SYMBOLS)} prices, and the last one of each symbol")
connection.disconnect()
