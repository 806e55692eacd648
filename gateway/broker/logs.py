"""The logs of all topics: which there are, and how several are read as one.

A log comes into being with its topic.  One that is empty, and that nobody subscribes to, is remembered among the last
`_MOST_RESTING`, for what it lost; who comes back to one of the others is told of a gap, though there may be none.
"""

from __future__ import annotations

import heapq
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .batch import Place
from .destinations import REPLY_TOPIC, USER
from .log import KIND, Entry, Log
from .policy import Policy
from .trie import NameTree

if TYPE_CHECKING:
    from .broker import Broker

# Empty logs without a subscriber that are remembered.
_MOST_RESTING = 10_000


class Logs:
    """The logs of all topics.

    Attributes:
        octets: what they have in memory costs.
        index: what it costs to know of the messages in the store.
        forgotten: of a log that is not known, messages up to that number may be lost.
        started: of a log in memory, messages up to that number are lost: the last process had them.
    """

    def __init__(self, broker: Broker) -> None:
        self.octets = 0
        self.index = 0
        self.forgotten = 0
        self.started = 0
        self.most_octets = broker.quotas.memory_limit // 4
        self._broker = broker
        self._logs: NameTree[Log] = NameTree()
        self._resting: OrderedDict[str, Log] = OrderedDict()
        self._place = 0  # in the store, for what was forgotten

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def messages(self) -> int:
        """How many there are in all logs."""
        return sum([len(log) for log in self._logs.values()])

    def of(self, name: str, policy: Policy) -> Log | None:
        """The log of a topic that comes into being; None: its policy asks for none."""
        if not policy.keeps_log or name.startswith(REPLY_TOPIC):
            return None
        log = self._resting.pop(name, None) or self._logs.get(name)
        if log is None:
            log = Log(self, self._broker, name, policy)
            self._logs.add(name, log)
        return log

    def emptied(self, log: Log) -> None:
        """A log has become empty by time: its topic may go."""
        topic = self._broker.directory.find(log.name)
        if topic is not None:
            self._broker.forget_if_idle(topic)

    def rest(self, log: Log) -> None:
        """The topic of an empty log goes: what was lost of it is remembered for a while."""
        if log.lost <= self.forgotten and not log.has_place:
            self._forget(log)
            return
        self._resting[log.name] = log
        if len(self._resting) > _MOST_RESTING:
            _, oldest = self._resting.popitem(last=False)
            self.forget_up_to(oldest.lost)
            self._forget(oldest)

    def forget_up_to(self, number: int) -> None:
        """Of logs that are not known any more, messages up to that number may be lost."""
        if number <= self.forgotten:
            return
        self.forgotten = number
        storage, facts = self._broker.storage, json.dumps({"forgotten": number})
        if storage is None:
            return
        if self._place:
            storage.describe(Place(self._place, KIND, "", facts))
        else:
            self._place = storage.place(KIND, "", facts)

    def restore(self, place: Place) -> None:
        """What the store knows of logs that were forgotten."""
        self._place = place.number
        self.forgotten = json.loads(place.facts)["forgotten"]

    def forget_mail(self, user: str) -> None:
        """A user without a login has gone, and cannot come back."""
        for log in self._logs.matching(f"{USER}{user}/#"):
            log.clear()
            self.emptied(log)
            if self._resting.pop(log.name, None) is not None:
                self._forget(log)

    def _forget(self, log: Log) -> None:
        self._logs.remove(log.name)
        log.end()

    def matching(self, text: str) -> list[Log]:
        """The logs that a name or pattern means."""
        return self._logs.matching(text)

    def walk(self, logs: Iterable[Log], number: int) -> Iterator[Entry]:
        """What stands behind that number now, in all of these logs, in order.

        Whoever takes his time finds some of it gone: the first that is of each log comes without message and size.
        """
        last = self._broker.router.number
        found = [(log, log.behind(number)) for log in logs]
        heap = [(entry.number, log) for log, entry in found if entry is not None]
        heapq.heapify(heap)
        while heap:
            number, log = heap[0]
            entry, following = log.behind(number - 1), log.behind(number)
            if following is None or following.number > last:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (following.number, log))
            yield entry if entry is not None and entry.number == number else Entry(number, log, 0, None, "")
