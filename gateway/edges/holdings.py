"""Holdings: what a session has at the primary, as its edge sees it in the frames of the client.

A session that only listens to topics has nothing there that another primary could not give it: its SUBSCRIBEs, sent
again, make it what it was.  So it outlives the loss of its primary, and only what was published meanwhile is missed:
the first MESSAGE of each subscription behind that has `gap:true`.  All others end, and their clients connect again:

    queues, durable subscriptions, acknowledgements      messages come again, to any consumer
    open transactions, receipts that have not come       the client must know that they are lost
    temporary destinations                               their names went with the session
    frames on their way, or behind the last receipt      they may be lost, and a later RECEIPT would confirm them
"""

from __future__ import annotations

from gateway.codec import Frame

_TOPIC = ("/topic/", "/presence/topic/")
_TEMPORARY = ("/temp-queue/", "/temp-topic/", "/reply-queue/")
# Headers of a SUBSCRIBE that leave nothing at the primary.
_PLAIN = frozenset(("ack", "destination", "id", "no-local", "presence-info", "receipt", "selector"))


class Holdings:
    """What one session holds.

    Attributes:
        is_silent: something has come behind the last frame that asks for a receipt, and none confirms it.
        subscriptions: by id, the SUBSCRIBE frames that can be sent again, as fields.
    """

    __slots__ = ("_binding", "_receipts", "_transactions", "is_silent", "subscriptions")

    def __init__(self) -> None:
        self.is_silent = False
        self._binding: set[str] = set()  # ids of subscriptions that bind the session to its primary
        self._transactions: set[str] = set()
        self._receipts = 0  # asked for, and not there
        self.subscriptions: dict[str, dict[str, str]] = {}

    @property
    def are_topics(self) -> bool:
        """True if there is nothing but subscriptions of topics."""
        return not (self._binding or self._transactions or self._receipts or self.is_silent)

    def note_head(self, headers: dict[str, str]) -> None:
        """A header block of a SEND."""
        if headers.get("reply-to", "").startswith(_TEMPORARY) or headers.get("destination", "").startswith(_TEMPORARY):
            self._binding.add("")

    def note(self, frame: Frame) -> None:
        """A frame that is no SEND."""
        headers = frame.headers
        match frame.command:
            case "SUBSCRIBE":
                self._note_subscribe(headers)
            case "UNSUBSCRIBE":
                key = headers.get("id") or headers.get("destination", "")
                if self.subscriptions.pop(key, None) is None:
                    self._binding.discard(key)
                    self.is_silent |= "receipt" not in headers
            case command:
                self.is_silent |= "receipt" not in headers
                if command == "BEGIN":
                    self._transactions.add(headers.get("transaction", ""))
                elif command in ("COMMIT", "ABORT"):
                    self._transactions.discard(headers.get("transaction", ""))

    def _note_subscribe(self, headers: dict[str, str]) -> None:
        key = headers.get("id") or headers.get("destination", "")
        is_topic = headers.get("destination", "").startswith(_TOPIC) and headers.get("ack", "auto") == "auto"
        if is_topic and _PLAIN.issuperset(headers):
            self.subscriptions[key] = {name: value for name, value in headers.items() if name != "receipt"}
        else:
            self._binding.add(key)

    def ask(self) -> None:
        """A frame asks for a receipt, which confirms all before it, too."""
        self._receipts += 1
        self.is_silent = False

    @property
    def awaits_receipts(self) -> bool:
        """True if the client waits for a RECEIPT."""
        return self._receipts > 0

    def see(self, frame: bytes) -> None:
        """A frame goes to the client, which waits for a RECEIPT."""
        if frame.startswith(b"RECEIPT\n"):
            self._receipts -= 1
