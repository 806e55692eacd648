import logging
import os
import queue
import signal
import sys

import stomp


class Inbox(stomp.ConnectionListener):
    has_told_why = False

    def on_connected(self, frame):
        connection.subscribe("/queue/work", id="1", ack="client-individual", headers={"prefetch-count": "10"})
        print("Working; press Ctrl-C to stop.", flush=True)

    def on_message(self, frame):
        frames.put(frame)

    def on_error(self, frame):
        print(f"ERROR: {frame.headers['message']}: {frame.body}", file=sys.stderr)
        self.has_told_why = True

    def on_disconnected(self):
        frames.put(None)


frames, inbox = queue.SimpleQueue(), Inbox()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: frames.put(None))
broker = (os.environ.get("STOMP_HOST", "127.0.0.1"), int(os.environ.get("STOMP_PORT", "61613")))
connection = stomp.Connection12([broker], heartbeats=(10_000, 10_000))
connection.set_listener("worker", inbox)  # by its name behind stomp.py's own, which starts the heart-beats
try:
    connection.connect(os.environ.get("STOMP_LOGIN"), os.environ.get("STOMP_PASSCODE"))
except stomp.exception.ConnectFailedException:
    sys.exit(1)  # stomp.py has said why
while frame := frames.get():
    try:
        connection.send("/topic/done", f"{frame.body}: done")
        connection.ack(frame.headers["ack"])
    except Exception:
        if not connection.is_connected():
            break  # another worker gets the job
        logging.exception("%r failed", frame.body)
        connection.nack(frame.headers["ack"])  # it comes again; after ten failures it is a dead letter
if not connection.is_connected():
    sys.exit(1 if inbox.has_told_why else "The connection is lost.")
connection.disconnect()
