"""A work queue: one job at a time, later attempts for jobs that fail, dead letters for those that keep failing.

    GATEWAY_CONFIG=work_queue.toml gateway serve
    python work_queue.py

A worker delivers three mails.  One address does not exist: the worker gives that job back with NACK, and the other jobs
pass it.  The gateway waits 0.2 s, then 0.4 s (the policy in work_queue.toml), and moves it to /queue/mail.failed after
the third attempt, with headers that say why.  The program ends when it has read it there.

STOMP_HOST and STOMP_PORT say where the gateway is, if not at 127.0.0.1:61613.
"""

import os
import queue
import sys
import time

import stomp

BROKER = (os.environ.get("STOMP_HOST", "127.0.0.1"), int(os.environ.get("STOMP_PORT", "61613")))
JOBS, FAILED = "/queue/mail", "/queue/mail.failed"
ADDRESSES = ["ada@example.org", "nobody@example.org", "bob@example.org"]
PATIENCE = 3  # seconds without a message after which it gives up


class Inbox(stomp.ConnectionListener):
    """What comes is worked on in the main thread: this one must stay free to read, and an exception would end it."""

    def __init__(self):
        self.frames = queue.SimpleQueue()

    def on_message(self, message):
        self.frames.put(message)

    def on_error(self, error):
        print(f"ERROR: {error.headers['message']}: {error.body}", file=sys.stderr)

    def on_disconnected(self):
        self.frames.put(None)


def deliver(address):
    if address.startswith("nobody@"):
        raise LookupError("no such mailbox")
    print(f"delivered to {address}")


def work_on(job, seconds):
    try:
        deliver(job.body)
        connection.ack(job.headers["ack"])
    except Exception as error:  # noqa: BLE001 - the worker goes on after any error
        attempt = job.headers.get("delivery-count", "1")
        print(f"attempt {attempt} for {job.body} failed after {seconds:.2f} s")
        connection.nack(job.headers["ack"], reason=str(error))


def show(letter):
    told = letter.headers
    print(f"dead letter from {told['dlq-source']}: {letter.body}")
    print(f"  {told['dlq-reason']} after {told['dlq-attempts']} attempts: {told['reason']}")
    connection.ack(told["ack"])


def next_message():
    try:
        message = inbox.frames.get(timeout=PATIENCE)
    except queue.Empty:
        sys.exit("No dead letter: start the gateway in this folder, with GATEWAY_CONFIG=work_queue.toml gateway serve")
    return message or sys.exit("The connection is lost.")


inbox = Inbox()
connection = stomp.Connection12([BROKER], heartbeats=(10_000, 10_000))
connection.set_listener("inbox", inbox)
connection.connect(wait=True)
connection.subscribe(JOBS, id="jobs", ack="client-individual", headers={"prefetch-count": "1"})
connection.subscribe(FAILED, id="failed", ack="client-individual")
for address in ADDRESSES:
    connection.send(JOBS, address)

started = time.monotonic()
while (message := next_message()).headers["subscription"] == "jobs":
    work_on(message, time.monotonic() - started)
show(message)
connection.disconnect()
