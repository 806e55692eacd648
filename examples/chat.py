"""A chat: one room for all, and private messages.

    gateway passwd users.txt ada
    gateway passwd users.txt bob
    GATEWAY_USERS_FILE=users.txt gateway serve
    python chat.py ada              and in another terminal: python chat.py bob

It asks for the passcode, unless the variable PASSCODE has it.  A line that starts with @bob goes to bob alone, on all
of bob's devices; any other goes to the room.  End with Ctrl-D or Ctrl-C.

The room is a topic.  Private messages go to /user/WHO/queue/chat, and everybody subscribes to /user/queue/chat, which
is another destination for each user.  Who wrote a message stands in `user-id`, and the gateway refuses a wrong one.

STOMP_HOST and STOMP_PORT say where the gateway is, if not at 127.0.0.1:61613.
"""

import getpass
import os
import sys
import threading

import stomp

BROKER = (os.environ.get("STOMP_HOST", "127.0.0.1"), int(os.environ.get("STOMP_PORT", "61613")))
ROOM, MAILBOX = "/topic/chat.room", "/user/queue/chat"


class Screen(stomp.ConnectionListener):
    has_told_why = False

    def on_message(self, message):
        whispers = " whispers" if message.headers["subscription"] == "mailbox" else ""
        print(f"{message.headers.get('user-id', 'somebody')}{whispers}: {message.body}", flush=True)

    def on_receipt(self, receipt):
        if receipt.headers["receipt-id"] == "joined":
            print(f"You are in the room, {me}.", flush=True)

    def on_error(self, error):
        print(f"ERROR: {error.headers['message']}: {error.body}", flush=True)
        self.has_told_why = True

    def on_disconnected(self):
        if not leaving.is_set():
            if not self.has_told_why:
                print("The connection is lost.", flush=True)
            os._exit(1)  # the main thread waits for a line, and would not hear of it


def say(line):
    signed = {"user-id": me}
    if line.startswith("@"):
        who, _, text = line[1:].partition(" ")
        connection.send(f"/user/{who}/queue/chat", text, headers=signed)
    else:
        connection.send(ROOM, line, headers=signed)


if len(sys.argv) != 2:
    sys.exit(__doc__)
me = sys.argv[1]
leaving = threading.Event()
connection = stomp.Connection12([BROKER], heartbeats=(10_000, 10_000))
connection.set_listener("screen", Screen())
try:
    connection.connect(me, os.environ.get("PASSCODE") or getpass.getpass(), wait=True)
except stomp.exception.ConnectFailedException:
    sys.exit(1)  # on_error or stomp.py has said why
connection.subscribe(MAILBOX, id="mailbox")
connection.subscribe(ROOM, id="room", headers={"no-local": "true"}, receipt="joined")
try:
    for line in sys.stdin:
        if line.strip():
            say(line.strip())
except KeyboardInterrupt:
    pass
leaving.set()
connection.disconnect()
