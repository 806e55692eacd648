"""A work queue: one job at a time, later attempts for jobs that fail, dead letters for those that keep failing.

    GATEWAY_CONFIG=work_queue.toml gateway serve
    python work_queue.py

A worker delivers three mails.  One address does not exist: the worker gives that job back with NACK, and the other jobs
pass it.  The gateway waits 0.2 s, then 0.4 s (the policy in work_queue.toml), and moves it to /queue/mail.failed after
the third attempt, with headers that say why.  The program ends when it has read it there.
"""

import queue
import time

import stomp

JOBS, FAILED = "/queue/mail", "/queue/mail.failed"
ADDRESSES = ["ada@example.org", "nobody@example.org", "bob@example.org"]


class Worker(stomp.ConnectionListener):
    """The messages are worked on in the main thread: this one must stay free to read."""

    def __init__(self):
        self.messages = queue.Queue()

    def on_message(self, message):
        self.messages.put(message)

    def on_error(self, error):
        print(f"ERROR: {error.headers['message']}: {error.body}")


def work_on(job, seconds):
    if not job.body.startswith("nobody@"):
        print(f"delivered to {job.body}")
        connection.ack(job.headers["ack"])
    else:
        attempt = job.headers.get("delivery-count", "1")
        print(f"attempt {attempt} for {job.body} failed after {seconds:.2f} s")
        connection.nack(job.headers["ack"], reason="no such mailbox")


def show(letter):
    told = letter.headers
    print(f"dead letter from {told['dlq-source']}: {letter.body}")
    print(f"  {told['dlq-reason']} after {told['dlq-attempts']} attempts: {told['reason']}")
    connection.ack(told["ack"])


worker = Worker()
connection = stomp.Connection12([("127.0.0.1", 61613)], heartbeats=(10_000, 10_000))
connection.set_listener("worker", worker)
connection.connect(wait=True)
connection.subscribe(JOBS, id="jobs", ack="client-individual", headers={"prefetch-count": "1"})
connection.subscribe(FAILED, id="failed", ack="client-individual")
for address in ADDRESSES:
    connection.send(JOBS, address)

started = time.monotonic()
while True:
    message = worker.messages.get(timeout=10)
    if message.headers["subscription"] == "failed":
        show(message)
        break
    work_on(message, time.monotonic() - started)
connection.disconnect()
