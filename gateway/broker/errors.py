"""Errors of clients, beyond the grammar.  All are `ProtocolError`s: `Session.failing` makes an ERROR frame of one."""

from collections.abc import Collection
from difflib import get_close_matches

from gateway.codec import V10, VERSIONS, Frame, ProtocolError, Version, encoder


def hint(word: str, known: Collection[str]) -> str:
    """The end of a sentence on an unknown word: the known one that may be meant, or nothing."""
    near = get_close_matches(word[:80], known, 1, 0.8)
    return f"; did you mean {near[0]}?" if near else ""


class HeaderMissing(ProtocolError):
    """A frame lacks a header that its command requires; `hint`: what else would help."""

    cause = "malformed"  # counted with the errors of the grammar: the client writes wrong frames

    def __init__(self, command: str, header: str, hint: str = "") -> None:
        detail = f"the {command} frame has no {header!r} header"
        super().__init__(f"{command} needs the header {header}", f"{detail}; {hint}" if hint else detail)


class NotAllowed(ProtocolError):
    """The frame makes no sense in this session: unknown command, unknown id, an id in use, a limit reached."""

    cause = "not-allowed"


class NotStored(NotAllowed):
    """The store takes no durable message for now."""

    retry_after = 5_000

    def __init__(self, reason: str) -> None:
        super().__init__("the store cannot be written", f"durable messages are refused for now: {reason}")


class NoFunction(NotAllowed):
    """No function of the application answers what is sent or subscribed to there."""

    def __init__(self, name: str) -> None:
        # Cut, as all words of a client in an ERROR: a header may have 64 KiB, and logs repeat them.
        super().__init__("no function for this destination", f"the server has no function for {name[:80]!r} (handlers)")


class BodyRefused(NotAllowed):
    """The body does not fit the schema of the destination."""

    cause = "schema"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__("the body does not fit", f"messages to {name[:80]!r} have a schema: {reason}")


class TooMany(NotAllowed):
    """There are too many connections, or sessions of the user."""

    cause = "too-many"


class TooLate(NotAllowed):
    """The client has not logged in within the time that it had."""

    cause = "connect-timeout"


class AccessRefused(NotAllowed):
    """The rules do not allow it to this user; `rule` (for the log) and `action` (a value of `Action`) say which."""

    cause = "access-refused"

    def __init__(self, message: str, detail: str, rule: str = "", action: str = "") -> None:
        super().__init__(message, detail)
        self.rule = rule  # for the log alone: rules are no business of the client
        self.action = action  # for the counters


# One sentence for both halves: else it would tell a guesser which names exist.
NOT_A_USER = "login and passcode do not belong to a user of this server"


class LoginRefused(ProtocolError):
    """The credentials were refused.  `detail`: for the client; all that comes behind `is_guess` is for the log."""

    cause = "login-refused"

    def __init__(
        self,
        detail: str = NOT_A_USER,
        *,
        message: str = "login refused",
        is_guess: bool = True,
        method: str = "",
        why: str = "",
        user: str = "",
    ) -> None:
        super().__init__(message, detail)
        self.is_guess = is_guess  # the client may be trying passcodes, so that it counts against the address
        self.method = method  # the kind of credentials, in the words of `Identity`, or `none`; empty: not known
        self.why = why  # it may say which half was wrong; it has nothing of the credentials themselves
        self.user = user  # the name that the client claims, where it is one of a user, and so no misplaced secret


class VersionRefused(ProtocolError):
    """No common version; the ERROR lists the server's (NEG-04)."""

    cause = "no-common-version"


class SlowConsumer(ProtocolError):
    """The client takes its messages too slowly, and a buffer is full; `limit`: one of `SLOW_LIMITS`."""

    cause = "slow-consumer"

    def __init__(self, detail: str, limit: str) -> None:
        super().__init__("slow consumer", detail)
        self.limit = limit


# A setting and a key of policies, so that the log says what to raise; a browser's limit cannot be set.
OUTBOX, NEWS, BROWSER = "max_outbound", "slow_messages", "browser"
SLOW_LIMITS = (OUTBOX, NEWS, BROWSER)
"""The limits that end a slow consumer: of its outbox; of a topic's subscriber, by its policy; of a browser."""


class TooCostly(ProtocolError):
    """Memory is at its limit, and no other client costs more of it."""

    cause = "memory-full"


class SessionEnded(ProtocolError):
    """An operator or the shutdown ends it.  `retry_after`: milliseconds until the client may come back; None: never."""

    cause = "ended"

    def __init__(self, message: str, detail: str = "", retry_after: int | None = None) -> None:
        super().__init__(message, detail)
        self.retry_after = retry_after


class TakenOver(SessionEnded):
    """The client has come again.  `by`: its new address, for the log.  `name`: of the durable subscription, if any."""

    def __init__(self, by: str, name: str = "") -> None:
        # Both cases are told apart: a program that was started twice must know which name to change.
        of_name = f"another connection subscribed under the same durable-subscription-name, {name[:80]!r}"
        reason = of_name if name else "another connection came under the same client-id"
        super().__init__(
            "subscription taken over" if name else "client-id taken over",
            f"{reason}; programs that run at the same time need different ones",
        )
        self.by = by


class AccessLost(SessionEnded):
    """The rules have changed, and no longer allow what the session is subscribed to; `rule` says so, for the log."""

    cause = "access-lost"

    def __init__(self, message: str, detail: str, rule: str) -> None:
        super().__init__(message, detail)
        self.rule = rule


class RenewalRefused(SessionEnded):
    """A session cannot be renewed with the token of a frame that asked for `receipt`."""

    cause = "renewal-refused"

    def __init__(self, detail: str, receipt: str | None = None) -> None:
        super().__init__("renewal refused", detail)
        self.receipt = receipt


def error_frame(error: ProtocolError, frame: Frame | None, version: Version = V10, *, end: bytes) -> bytes:
    """The ERROR frame of an error; before the session exists it is written as 1.0 has it, which all versions read."""
    headers = {"message": str(error)}
    if frame is not None and "receipt" in frame.headers:
        headers["receipt-id"] = frame.headers["receipt"]
    # Its SEND is not the frame at work any more; the RECEIPT that it asked for waited for the answer.
    if isinstance(error, RenewalRefused) and error.receipt is not None:
        headers["receipt-id"] = error.receipt
    # NEG-04: so the client knows what it may offer next time.
    if isinstance(error, VersionRefused):
        headers["version"] = ",".join(each.name for each in VERSIONS)
    if isinstance(error, (SessionEnded, NotStored)) and error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    # The short sentence is in `message`, which clients show; the body has what to do.
    body = error.detail.encode()
    if body:
        headers["content-type"] = "text/plain;charset=utf-8"
    return encoder.frame("ERROR", headers, body, version=version, end=end)
