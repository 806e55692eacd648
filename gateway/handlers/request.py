"""One message that a client sent, or one SUBSCRIBE, as its function sees it.

What a function sends is checked at once, so that the function learns of it if it cannot be; it is carried out when the
function has returned, together with the ACK, in one go.  A function that fails has sent nothing, and when it is run
again nothing comes twice.

What a function sends is in nobody's name, unless it goes to another function: that one sees the user for whom the first
one works.  So no client gets more rights by having functions send for it (`reply-to:/app/...`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import trio

from gateway.broker import Broker
from gateway.broker.errors import NotAllowed
from gateway.broker.headers.parse import send_options
from gateway.broker.model import destinations
from gateway.broker.model.sending import PreparedSend
from gateway.codec import Frame, Head

Body = bytes | bytearray | memoryview | str

# What the in-process client is told, and its function need not know.
_OF_THE_DELIVERY = frozenset({"ack", "subscription", "content-length"})
# What would steer the session of a sender; a function has none.
_OF_SESSIONS = ("transaction", "receipt")


class Reject(Exception):
    """Raised by a function: this request will never succeed, so it is not tried again.

    Args:
        reason: the header `reason` of the dead letter; others may read it.
    """


class CannotSend(Exception):
    """The broker does not take what a function sends; `str()` says why."""


class Request:
    """What a client wants.  It is the function's until that has returned.

    Attributes:
        destination: `/app/...` as the client wrote it.
        headers: all that it said, and the server's `message-id`.  Do not change.
        body: the bytes; none of a SUBSCRIBE.
        user: who the client is, verified: the login, or the session's id where clients have no names.
        session: the id of its session, verified.
        reply_to: where the answer goes; None: the client does not want any.
        attempt: 1, or more when earlier attempts failed.
        is_subscribe: it is a SUBSCRIBE.
    """

    __slots__ = (
        "_broker",
        "_done",
        "_sendings",
        "attempt",
        "body",
        "destination",
        "headers",
        "is_subscribe",
        "message_id",
        "reply_to",
        "session",
        "user",
    )

    def __init__(self, broker: Broker, frame: Frame, *, is_subscribe: bool) -> None:
        headers = frame.headers
        self.destination = headers["destination"]
        self.headers: Mapping[str, str] = MappingProxyType(
            {name: value for name, value in headers.items() if name not in _OF_THE_DELIVERY}
        )
        self.body = frame.body
        self.user = headers["user-id"]
        self.session = headers["session"]
        self.reply_to = headers.get("reply-to")
        self.message_id = headers["message-id"]
        self.attempt = int(headers.get("delivery-count", "1"))
        self.is_subscribe = is_subscribe
        self._broker = broker
        self._sendings: list[PreparedSend] = []
        self._done = False

    # what the client said

    @property
    def text(self) -> str:
        """The body as text.

        Raises:
            Reject: it is not UTF-8, and never will be.
        """
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            raise Reject("the body is not UTF-8") from None

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            Reject: it is not JSON.
        """
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            raise Reject("the body is not JSON") from None

    # what the function says

    def send(self, destination: str, body: Body = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a message when the function has returned.

        Args:
            headers: besides the destination; those that ask something of the broker (`x-delay`, `expires`, `retain`
                and so on) mean what they mean in a SEND.

        Raises:
            CannotSend: the broker would refuse it: the destination, a header, or a limit.
            RuntimeError: the function has returned already, or this is not its task.
        """
        self._check_place()
        nbytes = _bytes(body)
        asked = _checked(destination, headers or {})
        try:
            found = [
                self._prepared(part, {**asked, "destination": part}, nbytes) for part in destinations.split(destination)
            ]
        except NotAllowed as error:
            raise _refused(error) from None
        self._keep(found)

    def reply(self, body: Body = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send an answer to where the client wants it, with its `correlation-id`; if it wants none, there is none.

        Raises:
            CannotSend, RuntimeError: as `send`.
            Reject: `reply-to` is no destination.
        """
        if self.reply_to is None:
            self._check_place()
            return
        correlation = {"correlation-id": self.headers["correlation-id"]} if "correlation-id" in self.headers else {}
        said = {**correlation, **(headers or {})}
        try:
            for part in destinations.split(self.reply_to):
                destinations.canonical(part)
        except NotAllowed as error:
            raise Reject(f"reply-to: {error}") from None
        if self.is_subscribe:
            self._answer(self.reply_to, body, said)
        else:
            self.send(self.reply_to, body, said)

    def _answer(self, reply_to: str, body: Body, headers: Mapping[str, str]) -> None:
        """To a subscriber, under the name that it subscribed."""
        self._check_place()
        nbytes = _bytes(body)
        try:
            self._keep([self._prepared(reply_to, _checked(self.destination, headers), nbytes)])
        except NotAllowed as error:
            raise _refused(error) from None

    def _check_place(self) -> None:
        if self._done:
            raise RuntimeError("the function has returned, and its request is done; await what still works for it")
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError("the broker is not for threads; send what the thread returns, when it has returned it")

    def _prepared(self, target: str, headers: dict[str, str], body: bytes) -> PreparedSend:
        options = send_options(headers)
        if options.temporary_reply is not None:
            raise NotAllowed("functions have no temporary destinations", "reply-to must name one of another kind")
        if options.passed_on is not None:
            headers = dict(options.passed_on)
        if target.startswith(destinations.APP):
            headers |= {"user-id": self.user, "session": self.session}
        head = Head.of("SEND", headers)
        largest = self._broker.quotas.max_outbound // 2
        if head.size + len(body) > largest:
            raise NotAllowed("message too large", f"half of max_outbound is {largest} octets")
        return self._broker.router.prepare(head, body, target, options, None)

    def _keep(self, sendings: list[PreparedSend]) -> None:
        self._sendings += sendings
        for sending in sendings:
            self._broker.keep(sending.nbytes)

    # the end

    def check(self) -> None:
        """Once more, for others may have come first: whether all that was sent can be carried out together.

        Raises:
            CannotSend: it cannot.
        """
        try:
            self._broker.router.check(self._sendings)
        except NotAllowed as error:
            raise _refused(error) from None

    def carry_out(self) -> None:
        """Send what was collected."""
        sendings = self._let_go()
        for sending in sendings:
            self._broker.router.send(sending)

    def close(self) -> None:
        """The function has returned, or failed; what was not carried out never will be."""
        self._done = True
        self._let_go()

    def _let_go(self) -> list[PreparedSend]:
        sendings, self._sendings = self._sendings, []
        self._broker.release(sum([sending.nbytes for sending in sendings]))
        return sendings


def _refused(error: NotAllowed) -> CannotSend:
    return CannotSend(f"{error}: {error.detail}")


def _bytes(body: Body) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    raise TypeError(f"a body is bytes or str, not {type(body).__name__}; json.dumps(...) makes a str of most others")


def _checked(destination: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Destination and headers, if they can be written as a frame."""
    for name, value in (*headers.items(), ("destination", destination)):
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"names and values of headers are str, unlike {name!r}: {value!r}")
        if not name or "\0" in name or "\0" in value or not _is_unicode(name + value):
            raise CannotSend(f"no frame can hold the header {name[:80]!r}: {value[:80]!r}")
    for name in ("destination", *_OF_SESSIONS):
        if name in headers:
            raise CannotSend(f"the header {name!r} is not for functions to give")
    return {**headers, "destination": destination}


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can say it; a str of Python may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
