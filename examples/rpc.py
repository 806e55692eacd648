"""Request and reply over a temporary queue.

    python rpc.py server        answers requests until Ctrl-C; start as many as you like, they share the work
    python rpc.py 3 4 12        asks for the squares of 3, 4 and 12, and prints the answers as they come

The client names /temp-queue/answers in `reply-to` and does not subscribe: the gateway does that for it.  The server
sees a name in its place that cannot be guessed, and sends there.  Each client has a separate queue under that name,
which ends with the client.

A request at which the server fails (try `python rpc.py x`) does not stop the server: it goes back with NACK, and the
gateway delivers it again, a little later each time, until it expires.

STOMP_HOST and STOMP_PORT say where the gateway is, if not at 127.0.0.1:61613.
"""

import logging
import os
import queue
import signal
import sys

import stomp

BROKER = (os.environ.get("STOMP_HOST", "127.0.0.1"), int(os.environ.get("STOMP_PORT", "61613")))
REQUESTS = "/queue/squares"
PATIENCE = 5  # seconds for which a client waits, and its requests are worth an answer


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


def answer(request):
    reply = f"{request.body} squared is {int(request.body) ** 2}"
    same = {"correlation-id": request.headers["correlation-id"]}
    connection.send(request.headers["reply-to"], reply, headers=same)
    connection.ack(request.headers["ack"])
    print(f"answered: {reply}", flush=True)


def serve():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: inbox.frames.put(None))  # answers what it has, and ends
    connection.subscribe(REQUESTS, id="1", ack="client-individual", headers={"prefetch-count": "10"})
    print("Answering; press Ctrl-C to stop.", flush=True)
    while request := inbox.frames.get():
        try:
            answer(request)
        except Exception as error:
            if not connection.is_connected():
                break  # another worker gets the request
            logging.exception("no answer to %r", request.body)
            connection.nack(request.headers["ack"], reason=repr(error))


def ask(numbers):
    for count, number in enumerate(numbers, 1):
        headers = {"reply-to": "/temp-queue/answers", "correlation-id": str(count), "expiration": str(PATIENCE * 1000)}
        connection.send(REQUESTS, number, headers=headers)
    for _ in numbers:
        try:
            reply = inbox.frames.get(timeout=PATIENCE)
        except queue.Empty:
            sys.exit(f"no answer within {PATIENCE} s: is there a server, and can it square what you asked?")
        if reply is None:
            break
        print(f"answer {reply.headers['correlation-id']}: {reply.body}")


if len(sys.argv) < 2:
    sys.exit(__doc__)
inbox = Inbox()
connection = stomp.Connection12([BROKER], heartbeats=(10_000, 10_000))
connection.set_listener("inbox", inbox)
connection.connect(wait=True)
if sys.argv[1:] == ["server"]:
    serve()
else:
    ask(sys.argv[1:])
if not connection.is_connected():
    sys.exit("The connection is lost.")
connection.disconnect()
