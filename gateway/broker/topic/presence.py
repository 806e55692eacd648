"""Presence: the users of a topic, which are those of its subscriptions, and their coming and going (policy `presence`).

    SUBSCRIBE /topic/room.7             the user joins with the first subscription; further ones only count
    UNSUBSCRIBE, DISCONNECT             the user leaves with the last one, at once
    a lost connection                   the user leaves when the grace time is over, unless it subscribes again before

    SUBSCRIBE /presence/topic/room.7    a MESSAGE with `event:list`, then `event:join`, `event:leave`, `event:update`

A user is a login, however many sessions it has.  Clients without a login are guests: a `client-id` is one guest, and
without it each session is one.  Such a session can not come back, so it has no grace time.

Not present are subscriptions with wildcards, for no list could name the topics that they watch; durable subscriptions
while they have no client; and the sessions of the server itself.

After a restart, or at another node of a cluster, the users come back one by one.  The first use of presence begins a
time as long as the grace time, in which a topic is settling: lists say so, users come and go untold, and one list for
all at its end has what is true then.

Nothing of it is asked for a message: only SUBSCRIBE, UNSUBSCRIBE and the end of a session come here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import islice

from gateway.codec import Head

from ..core.context import Context
from ..core.ports import ANONYMOUS, INTERNAL, Peer
from ..core.scheduler import Timer
from ..errors import NotAllowed
from ..model.destinations import PRESENCE, TOPIC
from ..model.message import Message
from ..model.options import PLAIN
from ..model.policy import Policies, Policy
from ..queue.subscription import Subscription
from .topic import Topic

# What a user costs in memory beside its words, nearly.
_COST = 1_024
# Lost connections of one user that may come back, each by itself.
_MOST_LOST = 16


class PresentUser:
    """A user of one topic.

    Attributes:
        id: `user:LOGIN` or `guest:NAME`, unique in the topic.
        login: empty: a guest.
        since: seconds since the epoch.
        info: what the client said last in `presence-info`; empty: nothing.
        sessions: id of each session -> its subscriptions of the topic; empty: the connection is lost.
        lost: the times until which sessions may come back whose connections were lost, the first in front.
    """

    __slots__ = ("departure", "id", "info", "login", "lost", "sessions", "since", "text")

    def __init__(self, user_id: str, login: str, since: int) -> None:
        self.id = user_id
        self.login = login
        self.since = since
        self.info = ""
        self.sessions: dict[str, int] = {}
        self.lost: list[float] = []
        self.departure: Timer | None = None  # set while all its connections are lost
        self.text = b""

    @property
    def cost(self) -> int:
        """Bytes of memory, nearly."""
        return _COST + len(self.id) + len(self.info)

    def row(self) -> dict[str, object]:
        """The user, as lists and events have it."""
        return {
            "id": self.id,
            "user": self.login or None,
            "info": self.info or None,
            "sessions": len(self.sessions),
            "since": self.since,
        }

    def write(self) -> None:
        """Note its row as JSON: a list of a thousand users is put together for each client that asks."""
        self.text = json.dumps(self.row(), ensure_ascii=False, separators=(",", ":")).encode()


class PresenceRoom:
    """A topic with its users, by their ids; `settles`: the timer of the end of settling; None: it has settled."""

    __slots__ = ("grace", "name", "settles", "users")

    def __init__(self, name: str, grace: float) -> None:
        self.name = name
        self.grace = grace
        self.users: dict[str, PresentUser] = {}
        self.settles: Timer | None = None


class TopicPresence:
    """The users of all topics whose policy tells of them."""

    def __init__(self, context: Context, policies: Policies) -> None:
        self._context = context
        self._policies = policies
        self._is_used = policies.tells_presence
        self._rooms: dict[str, PresenceRoom] = {}  # by the topic's name
        self._present: dict[Subscription, tuple[PresenceRoom, PresentUser]] = {}
        self._away = 0  # users that may come back
        self._begun: float | None = None  # when presence was first used

    # users come and go

    def enter(self, name: str, subscription: Subscription) -> None:
        """A subscription to a topic, or pattern, has begun."""
        if not self._is_used or subscription.peer.transport == INTERNAL or not name.startswith(TOPIC):
            return
        topic = self._context.destinations.find(name)
        # A pattern stands in no table.
        if not isinstance(topic, Topic) or not topic.policy.presence:
            return
        room, peer, info = self._room(name, topic.policy), subscription.peer, subscription.options.presence_info
        user_id = _id_of(peer)
        user = room.users.get(user_id)
        event = ""
        if user is None:
            login = "" if peer.login == ANONYMOUS else peer.login
            user = room.users[user_id] = PresentUser(user_id, login, int(self._context.scheduler.epoch()))
            self._context.memory.keep(user.cost)
            event = "join"
        elif user.departure is not None:
            self._context.scheduler.cancel(user.departure)
            self._come_back(user)
        if peer.id not in user.sessions and user.lost:
            del user.lost[0]
        user.sessions[peer.id] = user.sessions.get(peer.id, 0) + 1
        if info and info != user.info:
            self._context.memory.release(user.cost)
            user.info = info
            self._context.memory.keep(user.cost)
            event = event or "update"
        user.write()
        self._present[subscription] = room, user
        if event:
            self._tell(room, event, user)

    def leave(self, subscription: Subscription, *, is_goodbye: bool) -> None:
        """A subscription ends; `is_goodbye`: its client wants that, and has not just lost its connection."""
        found = self._present.pop(subscription, None)
        if found is None:
            return
        room, user = found
        peer, now = subscription.peer, self._context.scheduler.clock()
        user.sessions[peer.id] -= 1
        if not user.sessions[peer.id]:
            del user.sessions[peer.id]
            user.lost = [due for due in user.lost if due > now][-_MOST_LOST:]
            if not is_goodbye and room.grace and _can_come_back(peer):
                user.lost.append(now + room.grace)
        user.write()
        if user.sessions:
            return
        if user.lost and self._away < self._context.work_limits.presence_away:
            self._away += 1
            user.departure = self._context.scheduler.at(user.lost[-1], partial(self._stay_away, room, user))
        else:
            self._depart(room, user)

    def _come_back(self, user: PresentUser) -> None:
        user.departure = None
        self._away -= 1

    def _stay_away(self, room: PresenceRoom, user: PresentUser) -> None:
        """The grace time of a user is over."""
        self._come_back(user)
        self._depart(room, user)

    def _depart(self, room: PresenceRoom, user: PresentUser) -> None:
        del room.users[user.id]
        self._context.memory.release(user.cost)
        self._tell(room, "leave", user)
        self._forget_if_empty(room)

    # topics

    def _room(self, name: str, policy: Policy) -> PresenceRoom:
        room = self._rooms.get(name)
        if room is None:
            scheduler = self._context.scheduler
            now = scheduler.clock()
            if self._begun is None:
                self._begun = now
            room = self._rooms[name] = PresenceRoom(name, policy.presence_grace)
            if now < self._begun + room.grace:
                room.settles = scheduler.at(self._begun + room.grace, partial(self._settle, room))
        return room

    def _settle(self, room: PresenceRoom) -> None:
        """The users of the last process, or node, have come back."""
        room.settles = None
        name = PRESENCE + room.name
        if self._context.destinations.find(name) is not None:
            self._context.destinations.deposit(name, _head(name, "list"), self._list(room), PLAIN)
        self._forget_if_empty(room)

    def _forget_if_empty(self, room: PresenceRoom) -> None:
        if not room.users and room.settles is None:
            del self._rooms[room.name]

    # watchers

    def check(self, name: str) -> None:
        """Check if there is presence of that name (`/presence/topic/...`).  Raises NotAllowed: the policy has none."""
        if not self._policies.find(name.removeprefix(PRESENCE)).presence:
            raise NotAllowed(
                "the topic tells no presence",
                f"the server's policy for {name.removeprefix(PRESENCE)[:80]!r} does not say presence = true",
            )

    def show(self, watched: Topic, subscription: Subscription) -> None:
        """Give a subscription to the presence of a topic the list of users: its first message."""
        name = watched.name.removeprefix(PRESENCE)
        # Made for a watcher, too, if it is to get the list at the end of settling.
        self._forget_if_empty(self._room(name, self._policies.find(name)))
        _ListReader(self, watched, subscription).begin()

    def list_of(self, watched: Topic) -> Message:
        """The message with the users of a topic."""
        name = watched.name.removeprefix(PRESENCE)
        room = self._room(name, self._policies.find(name))
        message = Message(self._context.next_number(), _head(watched.name, "list"), self._list(room), PLAIN)
        self._forget_if_empty(room)
        self._context.records.came(message)
        return message

    def _list(self, room: PresenceRoom) -> bytes:
        limits = self._context.work_limits
        texts: list[bytes] = []
        nbytes = 0
        for user in islice(room.users.values(), limits.presence_users):
            nbytes += len(user.text)
            if nbytes > limits.presence_bytes:
                break
            texts.append(user.text)
        more, settling = _json(len(texts) < len(room.users)), _json(room.settles is not None)
        users = b",".join(texts)
        return b'{"users":[%b],"count":%d,"more":%b,"settling":%b}' % (users, len(room.users), more, settling)

    def _tell(self, room: PresenceRoom, event: str, user: PresentUser) -> None:
        """Tell the watchers of a topic of one user."""
        name = PRESENCE + room.name
        if room.settles is None and self._context.destinations.find(name) is not None:
            body = b'%b,"count":%d}' % (user.text[:-1], len(room.users))
            self._context.destinations.deposit(name, _head(name, event), body, PLAIN)

    # operators

    def tells(self, name: str) -> bool:
        """True if the policy of that topic has presence."""
        return name.startswith(TOPIC) and self._policies.find(name).presence

    def count(self, name: str) -> int:
        """The number of users of a topic."""
        room = self._rooms.get(name)
        return 0 if room is None else len(room.users)

    def is_settling(self, name: str) -> bool:
        """True if users of the last process, or node, may still come back."""
        room = self._rooms.get(name)
        return room is not None and room.settles is not None

    def users(self, name: str) -> Iterator[PresentUser]:
        """The users of a topic, in the order in which they came; to be read in one turn."""
        room = self._rooms.get(name)
        return iter(()) if room is None else iter(room.users.values())


class _ListReader:
    """The list that a new subscription is to get, once its RECEIPT is out."""

    def __init__(self, presence: TopicPresence, watched: Topic, subscription: Subscription) -> None:
        self._presence = presence
        self._watched = watched
        self._subscription = subscription

    def begin(self) -> None:
        """Give the list as soon as the subscription has its RECEIPT."""
        self._subscription.reader = self
        self.offer()

    def offer(self) -> None:
        """Give the list, unless the subscription is paused."""
        subscription = self._subscription
        if subscription.window < 0:
            subscription.outbox.starved[self] = None
            return
        self.end()
        self._watched.give(subscription, self._presence.list_of(self._watched))

    def end(self) -> None:
        """Stop: the subscription goes, or has the list."""
        self._subscription.reader = None
        self._subscription.outbox.starved.pop(self, None)


def _id_of(peer: Peer) -> str:
    if peer.login != ANONYMOUS:
        return f"user:{peer.login}"
    # Not the session's id itself, by which others could send to its user destinations.
    return f"guest:{peer.client_id or sha256(peer.id.encode()).hexdigest()[:12]}"


def _can_come_back(peer: Peer) -> bool:
    """True if the next session of that client is known to be of the same user."""
    return peer.login != ANONYMOUS or peer.client_id != ""


def _head(name: str, event: str) -> Head:
    return Head.of("SEND", {"destination": name, "event": event, "content-type": "application/json"})


def _json(flag: bool) -> bytes:
    return b"true" if flag else b"false"
