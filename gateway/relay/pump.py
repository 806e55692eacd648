"""Messages from one server to another: a link to each, and one thread for both.

    gather      messages from the source are held
    pass on     all that came together are sent to the target, and the thread waits for their RECEIPTs
    settle      confirmed messages are acknowledged at the source, refused ones are given back there as dead letters

No message is acknowledged before the target has confirmed it.  So whatever breaks, a message is at the source, at the
target, or at both, and then its `dedup-id` tells.

**Refused.**  An ERROR ends the connection and need not name the message.  So the messages in flight are sent again, one
by one; a message that is refused twice, while no other is in flight, is the one that the target refuses.

**Headers.**  Those of the delivery stay behind, and so does `user-id`: the target would compare it with the login of
the relay.  A `reply-to` that begins with /temp- would name a destination of the relay at the target, and stays behind,
too.  All others go on, and two are added:

    relayed     the relays that the message has passed, with commas: a relay that finds its own name has found a circle
    dedup-id    the same for each delivery of the same message of the same source, unless its publisher set one

The known weakness: one thread serves both sides, so a call to one server must not exceed the patience of the other.
"""

import hashlib
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import structlog

from gateway.client import Client, ConnectionLost, ServerError, StompError
from gateway.client.protocol import handle_of
from gateway.codec import V10, Frame

from .link import LinkLost, ServerLink
from .monitoring import RelayStatus
from .settings import RelayPlan, Route, address

log = structlog.get_logger("gateway.relay")

_LOOK = 0.5
_OURS = "stomp-gateway"
_TOGETHER = 1000
_BYTES = 1024**2
_SLICE = 256 * 1024
_MOST = 64 * 1024**2
_PROOFS = 2
# Seconds without a RECEIPT.  Long, because a target with a full queue may hold back its publishers.
_PATIENCE = 300.0
_LINE_EVERY = 60.0

RELAYED = "relayed"
MOST_HOPS = 8
_DEDUP = ("dedup-id", "_AMQ_DUPL_ID")
_STAYS = frozenset(
    "ack content-length delivery-count destination message-id receipt redelivered subscription transaction "
    "user-id".split()
)


class Loop(Exception):
    """The message goes in a circle; the text is one sentence."""


def onward(message: Frame, plan: RelayPlan, route: Route) -> dict[str, str]:
    """The headers of the SEND.  Raises Loop: the message must not be sent."""
    headers = message.headers
    passed = [name for name in headers.get(RELAYED, "").split(",") if name]
    if plan.name in passed:
        raise Loop(f"it has passed the relay {plan.name} before: it goes in a circle")
    if len(passed) >= MOST_HOPS:
        raise Loop(f"it has passed {len(passed)} relays, and {MOST_HOPS} may be: it goes in a circle")
    kept = {name: value for name, value in headers.items() if name not in _STAYS}
    if kept.get("reply-to", "").startswith("/temp-"):
        del kept["reply-to"]
    own = headers.get("destination", route.source) if route.is_pattern else route.source
    kept |= {"destination": route.target or own, RELAYED: ",".join([*passed, plan.name])}
    if not any(kept.get(name) for name in _DEDUP):
        kept["dedup-id"] = _dedup_id(message, plan, route)
    return kept


def _dedup_id(message: Frame, plan: RelayPlan, route: Route) -> str:
    """A hash with server and destination: two queues may hold one SEND with one id, and two servers count alike."""
    parts = address(plan.source), message.headers.get("destination", route.source), message.headers["message-id"]
    return hashlib.blake2b("\n".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


@dataclass(eq=False)
class _Held:
    """A message that has come and is not settled."""

    frame: Frame
    headers: dict[str, str]
    refusals: int = 0  # number of ERRORs while no other message was in flight
    is_confirmed: bool = False  # by the target
    fault: str = ""  # reason to give it back; "": none

    @property
    def handle(self) -> str:
        return handle_of(self.frame)

    @property
    def subscription(self) -> str:
        return self.frame.headers.get("subscription", "")

    @property
    def nbytes(self) -> int:
        return len(self.frame.body) + self.frame.head.size


class Pump:
    """One direction.  `stop`: set to end it.  `status`: for other threads."""

    def __init__(self, plan: RelayPlan, stop: threading.Event) -> None:
        self._plan = plan
        self._stop = stop
        self._source = ServerLink("source", plan.source)
        self._target = ServerLink("target", plan.target)
        self._routes = {route.source: route for route in plan.routes}
        self._held: list[_Held] = []
        self._settled: list[_Held] = []  # not acknowledged at the source yet
        self._under_way: list[_Held] = []
        self._alone = 0  # number of held messages that are sent one by one
        self._receipts = 0
        self._is_ours = False
        self._told_loops: set[str] = set()
        self.status = RelayStatus(plan, self._source, self._target, lambda: len(self._held))
        self._next_line = time.monotonic() + _LINE_EVERY

    def run(self) -> None:
        """Relay until `stop` is set.  Raises ServerError: a server refuses the first connection."""
        plan = self._plan
        names = [f"{route.source}={route.target}" if route.target else route.source for route in plan.routes]
        log.info("relaying", relay=plan.name, destinations=names, **self.status.ends)
        try:
            while not self._stop.is_set():
                self._step()
            self._finish()
        finally:
            self._source.close()
            self._target.close()
        self._tell()

    def _step(self) -> None:
        self.status.turns()
        self._target.open(self._greet)
        self.status.turns()
        self._source.open(self._subscribe)
        try:
            self._turn()
        except LinkLost as lost:
            self._drop(lost)
        if time.monotonic() >= self._next_line:
            self._tell()

    def _greet(self, client: Client) -> None:
        self._is_ours = client.server.startswith(_OURS)

    def _subscribe(self, client: Client) -> None:
        if client.version is V10:
            raise ServerError(f"{address(self._plan.source)} speaks STOMP 1.0, which cannot acknowledge one by one")
        for route in self._plan.routes:
            headers = {"id": route.source, "destination": route.source, "ack": "client-individual"}
            headers["prefetch-count"] = str(self._plan.prefetch)
            if self._plan.durable and route.source.startswith("/topic/"):
                headers |= {"durable": "true", "auto-delete": "false"}
            client.request("SUBSCRIBE", headers)
            self.status.turns()

    def _turn(self) -> None:
        """One round of all that is possible now."""
        has_source, has_target = self._source.client is not None, self._target.client is not None
        if has_source:
            self._settle()
            self._source.works()
        if has_target and not self._held:
            self._target.works()
        if has_source and has_target:
            if not self._held:
                self._gather(_LOOK)
            if self._held:
                self._pass_on()
                self._settle()
            self._listen(0.0)
        elif has_source:
            self._gather(min(_LOOK, self._target.due()))
        elif has_target:
            self._listen(min(_LOOK, self._source.due()))
        else:
            self._stop.wait(min(_LOOK, self._source.due(), self._target.due()))

    # The source.

    def _gather(self, seconds: float) -> None:
        with self._source.talk() as client:
            if sum([each.nbytes for each in self._held]) >= _MOST:
                client.rest(seconds)
                return
            frames = client.receive(seconds)
        for frame in frames:
            route = self._routes.get(frame.headers.get("subscription", ""))
            if frame.command == "MESSAGE" and route is not None:
                self._take(frame, route)

    def _take(self, frame: Frame, route: Route) -> None:
        try:
            self._held.append(_Held(frame, onward(frame, self._plan, route)))
        except Loop as loop:
            self._settled.append(_Held(frame, {}, fault=str(loop)))
            self.status.routes[route.source].loops += 1
            if route.source not in self._told_loops:
                self._told_loops.add(route.source)
                log.warning(
                    "a message goes in a circle", destination=route.source, reason=str(loop), **self.status.ends
                )

    def _settle(self) -> None:
        """Acknowledge settled messages at the source."""
        if not self._settled:
            return
        confirmed: dict[str, list[str]] = {}
        frames = []
        with self._source.talk() as client:
            for each in self._settled:
                if each.fault:
                    frames.append(_nack(client, each))
                else:
                    confirmed.setdefault(each.subscription, []).append(each.handle)
            frames += [client.acks(subscription, handles) for subscription, handles in confirmed.items()]
            client.send(b"".join(frames))
        self._settled.clear()

    def _beat(self) -> None:
        """Send a heart-beat to the source during a wait for the target.

        A lost source is noticed later: a frame to the target must not be cut in its middle.
        """
        self.status.turns()
        if self._source.client is not None:
            with suppress(LinkLost), self._source.talk() as client:
                client.rest(0.0)

    # The target.

    def _listen(self, seconds: float) -> None:
        """Read heart-beats and ERRORs of the target."""
        with self._target.talk() as client:
            client.receive(seconds)

    def _pass_on(self) -> None:
        """Send held messages, or the first part of them, and wait until they are confirmed."""
        self._under_way = self._next_part()
        try:
            self._send(self._under_way)
        finally:
            confirmed = [each for each in self._under_way if each.is_confirmed]
            self._release(confirmed)
        self._target.has_confirmed()

    def _next_part(self) -> list[_Held]:
        if self._alone:
            return self._held[:1]
        count = nbytes = 0
        while count < min(len(self._held), _TOGETHER) and nbytes < _BYTES:
            nbytes += self._held[count].nbytes
            count += 1
        return self._held[:count]

    def _send(self, part: list[_Held]) -> None:
        waiting: dict[str, list[_Held]] = {}
        frames = []
        with self._target.talk() as client:
            for each in part:
                headers = each.headers
                if not self._is_ours or each is part[-1]:
                    self._receipts += 1
                    headers = {**headers, "receipt": f"m{self._receipts}"}
                    waiting[headers["receipt"]] = part if self._is_ours else [each]
                frames.append(client.encode("SEND", headers, each.frame.body))
            data = b"".join(frames)
            try:
                for start in range(0, len(data), _SLICE):
                    client.send(data[start : start + _SLICE])
                    self._beat()
                self._wait_for(client, waiting)
            except StompError:
                with suppress(StompError):
                    _confirm(client.receive(0.0), waiting)  # RECEIPTs before the end
                raise

    def _wait_for(self, client: Client, waiting: dict[str, list[_Held]]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while waiting:
            if _confirm(client.receive(_LOOK), waiting):
                deadline = time.monotonic() + _PATIENCE
            self._beat()
            if time.monotonic() > deadline:
                raise ConnectionLost(f"{address(self._plan.target)} did not confirm SEND in {_PATIENCE:g} s")

    def _release(self, settled: list[_Held]) -> None:
        """Move messages from the held ones to the settled ones."""
        if not settled:
            return
        gone = set(settled)
        self._held = [each for each in self._held if each not in gone]
        self._under_way = [each for each in self._under_way if each not in gone]
        self._settled += settled
        self._alone = max(0, self._alone - len(settled))
        for each in settled:
            if not each.fault:
                self.status.passed(each.subscription, each.nbytes)

    # What breaks.

    def _drop(self, lost: LinkLost) -> None:
        if lost.link is self._source:
            self._held, self._settled, self._under_way, self._alone = [], [], [], 0
            self._source.lost(lost.error)
            return
        is_suspicion = lost.is_refusal and bool(self._under_way)
        self._target.lost(lost.error, quiet=is_suspicion)
        if is_suspicion:
            self._suspect(str(lost.error))
        self._under_way = []

    def _suspect(self, reason: str) -> None:
        """One message in flight was refused; a single one is known."""
        self._alone = max(self._alone, len(self._under_way))
        if len(self._under_way) > 1:
            return
        (each,) = self._under_way
        each.refusals += 1
        if each.refusals < _PROOFS:
            return
        each.fault = reason
        headers = each.frame.headers
        log.warning(
            "a message is refused",
            destination=headers.get("destination", each.subscription),
            message_id=headers["message-id"],
            to=each.headers["destination"],
            reason=reason,
            **self.status.ends,
        )
        self.status.routes[each.subscription].refused += 1
        self._release([each])
        self._target.has_confirmed()

    # The end.

    def _finish(self) -> None:
        """Settle, and disconnect; the source takes back all other messages by itself."""
        try:
            if self._source.client is not None:
                self._settle()
        except LinkLost as lost:
            self._source.lost(lost.error)
        self._source.disconnect()
        self._target.disconnect()

    def _tell(self) -> None:
        self._next_line = time.monotonic() + _LINE_EVERY
        counts = self.status.news()
        log.info(
            "relayed",
            messages=counts.messages,
            octets=counts.nbytes,
            refused=counts.refused,
            loops=counts.loops,
            held=len(self._held),
            **self.status.ends,
        )


def _confirm(frames: list[Frame], waiting: dict[str, list[_Held]]) -> bool:
    """Confirm messages by their RECEIPTs; returns whether there were any."""
    confirmed = [each for frame in frames for each in waiting.pop(frame.headers.get("receipt-id", ""), ())]
    for each in confirmed:
        each.is_confirmed = True
    return bool(confirmed)


def _nack(client: Client, message: _Held) -> bytes:
    """A NACK that makes a dead letter of the message at once, if the server knows the headers."""
    headers = {"requeue": "false", "reason": message.fault[:500]}
    return client.protocol.nack(message.subscription, message.handle, headers)
