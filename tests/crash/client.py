"""A client that asks for receipts, and enters into the books what they say.

A RECEIPT says that its frame was carried out, and all frames before it on the connection.  So what was sent without a
receipt is sure with the next one, and receipts come in the order in which they were asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from .books import Books, State, Unit
from .wire import Frame, Gate, Gone, Link, frame


class Client:
    """A connection and what it waits for."""

    def __init__(self, link: Link, books: Books) -> None:
        self.port = link.port
        self.session = link.session
        self.outstanding = 0  # receipts that have not come yet
        self.error: Frame | None = None  # the one that ended it
        self.is_lost = False  # its edge is: what it has received since may have gone to another client, too
        self._link = link
        self._books = books
        self._asked: deque[tuple[str, Unit | None]] = deque()
        self._count = 0

    @classmethod
    async def open(cls, gate: Gate, books: Books) -> Client:
        return cls(await Link.open(gate), books)

    def ask(self, command: str, headers: dict[str, str], body: bytes = b"", *, unit: Unit | None = None) -> bytes:
        """A frame that asks for a receipt, which confirms that unit."""
        self._count += 1
        self.outstanding += 1
        name = str(self._count)
        self._asked.append((name, unit))
        return frame(command, {**headers, "receipt": name}, body)

    def tell(self, command: str, headers: dict[str, str], body: bytes = b"", *, unit: Unit) -> bytes:
        """A frame that decides on a unit, and asks for nothing."""
        self._asked.append(("", unit))
        return frame(command, headers, body)

    async def send(self, *frames: bytes, unit: Unit | None = None, piecemeal: bool = False) -> None:
        """Write frames, or piecemeal, so that a kill may fall between them; the last one decides on the unit."""
        if piecemeal:
            for each in frames[:-1]:
                await self._link.send(each)
            frames = frames[-1:]
        if unit is not None:
            unit.state = State.SENT
        await self._link.send(b"".join(frames))

    async def receive(self) -> list[Frame]:
        """Messages of one chunk, perhaps none; receipts are seen to.  An ERROR ends it as `Gone`, so does its loss."""
        messages = []
        chunk = await self._link.receive()
        if self.is_lost:
            raise Gone
        for each in chunk:
            if each.command == "MESSAGE":
                messages.append(each)
            elif each.command == "RECEIPT":
                self._confirm(each.headers["receipt-id"])
            else:
                self.error = each
                raise Gone
        return messages

    def _confirm(self, name: str) -> None:
        self._books.counts["receipts"] += 1
        self.outstanding -= 1
        while self._asked and not self._asked[0][0]:
            self._sure(self._asked.popleft())
        names = [asked for asked, _ in self._asked]
        if name not in names:
            self._books.complain("error", f"receipt {name} was not asked for")
            return
        index = names.index(name)
        if index:
            self._books.complain("error", f"receipt {name} came before receipt {names[0]}")
        self._sure(self._asked[index])
        del self._asked[index]

    def _sure(self, asked: tuple[str, Unit | None]) -> None:
        if asked[1] is not None:
            self._books.confirm(asked[1])

    async def receipts(self) -> None:
        """Wait for all; what else comes is not looked at."""
        while self.outstanding:
            await self.receive()

    async def bind(self) -> None:
        """Hold something at the primary, so that the session ends with it and does not move to the next one."""
        await self._link.send(self.ask("SUBSCRIBE", {"id": "bound", "destination": "/temp-queue/bound"}))
        await self.receipts()

    async def disconnect(self) -> None:
        await self._link.send(self.ask("DISCONNECT", {}))
        await self.receipts()
        await self.close()

    def complain(self, excuses: Collection[str] = ()) -> None:
        """Of an ERROR, unless the gateway says goodbye, or has one of the excuses."""
        if self.error is not None and self.error.headers["message"] not in ("server is shutting down", *excuses):
            self._books.complain("error", f"{self.error.command} {self.error.headers} {self.error.body!r}")

    def forsake(self, *, loose: bool = True) -> None:
        """Nobody will read the answers, though the gateway may go on; or, after all, it does not."""
        for _, unit in self._asked:
            if unit is not None:
                unit.loose = loose

    async def close(self) -> None:
        await self._link.close()
