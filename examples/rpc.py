"""Request and reply over a temporary queue.

    python rpc.py server        answers requests until Ctrl-C; start as many as you like, they share the work
    python rpc.py 3 4 12        asks for the squares of 3, 4 and 12, and prints the answers as they come

The client names /temp-queue/answers in `reply-to` and subscribes to nothing: the gateway does that for it.  The server
sees a name in its place that nobody can guess, and sends there.  Each client has a queue of its own under that name; it
goes when the client goes.
"""

import queue
import sys
import time

import stomp

REQUESTS = "/queue/squares"


class Server(stomp.ConnectionListener):
    def on_message(self, request):
        answer = f"{request.body} squared is {int(request.body) ** 2}"
        same = {"correlation-id": request.headers["correlation-id"]}
        connection.send(request.headers["reply-to"], answer, headers=same)
        connection.ack(request.headers["ack"])
        print(f"answered: {answer}", flush=True)


class Client(stomp.ConnectionListener):
    def __init__(self):
        self.answers = queue.Queue()

    def on_message(self, reply):
        self.answers.put((reply.headers["correlation-id"], reply.body))


def serve():
    connection.set_listener("server", Server())
    connection.connect(wait=True)
    connection.subscribe(REQUESTS, id="1", ack="client-individual", headers={"prefetch-count": "10"})
    print("Answering; press Ctrl-C to stop.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        connection.disconnect()


def ask(numbers):
    client = Client()
    connection.set_listener("client", client)
    connection.connect(wait=True)
    for count, number in enumerate(numbers, 1):
        headers = {"reply-to": "/temp-queue/answers", "correlation-id": str(count), "expiration": "10000"}
        connection.send(REQUESTS, number, headers=headers)
    for _ in numbers:
        count, answer = client.answers.get(timeout=10)
        print(f"answer {count}: {answer}")
    connection.disconnect()


connection = stomp.Connection12([("127.0.0.1", 61613)], heartbeats=(10_000, 10_000))
if sys.argv[1:] == ["server"]:
    serve()
elif sys.argv[1:]:
    ask(sys.argv[1:])
else:
    sys.exit(__doc__)
