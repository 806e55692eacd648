"""Message pipe: messages in batches, on a pipe that moves bytes.

A batch is what was put since the last one was sent: one write for many messages.  Where the other end does not read, a
batch waits, and what is put meanwhile is the next one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator

import msgpack
import trio

from gateway.transports.wire.link import BrokenLink, Buffers, Pipe, advance

from .forms import Message

# One read.
_READ = 256 * 1024
# Bytes of one message at most: the longest body that settings allow, and its headers.
_LONGEST = 1 << 31
# Seconds until the next look, while there is something to read.
_LOOK = 1.0


class MessagePipe:
    """Messages in both directions.

    Args:
        discard: has the system forget, at the end, what the other end has not got so far.

    Attributes:
        sent: batches that were begun so far.
        waiting: bytes that were put, and that the pipe has not taken.
        bytes_in, bytes_out: that came, and that were sent.
    """

    def __init__(self, pipe: Pipe, discard: Callable[[], None] = lambda: None) -> None:
        self._pipe = pipe
        self.discard = discard
        self._packer = msgpack.Packer(autoreset=False, unicode_errors="surrogatepass")
        self._unpacker = msgpack.Unpacker(
            use_list=False, max_buffer_size=_LONGEST, unicode_errors="surrogatepass", strict_map_key=False
        )
        self._pack = self._packer.pack
        self._rest: Buffers = []  # of a batch that the pipe took in part
        self._is_broken = False
        self.sent = 0
        self._silent_since = trio.current_time()
        self.bytes_in = self.bytes_out = 0

    def put(self, *message: object) -> None:
        """Put a message into the batch."""
        self._pack(message)

    @property
    def waiting(self) -> int:
        return len(self._packer.getbuffer()) + sum(map(len, self._rest))

    @property
    def has_messages(self) -> bool:
        """True if the batch is not empty."""
        return len(self._packer.getbuffer()) > 0

    async def wait_silent(self, first: float, later: float) -> None:
        """Wait until nothing came for so many seconds: `first` until the first bytes, then `later`.

        While there is something to read the other end is not silent: this process was stopped meanwhile.
        """
        while True:
            left = self._silent_since + (later if self.bytes_in else first) - trio.current_time()
            if left <= 0 and not self._pipe.has_bytes():
                return
            await trio.sleep(min(max(left, _LOOK), later))

    def send(self) -> bool:
        """Write the batch, as far as the pipe takes it now; False: `drain` has to do the rest."""
        if self._rest:
            return False
        batch = self._packer.bytes()
        if not batch or self._is_broken:
            self._packer.reset()
            return True
        self._packer.reset()
        self.sent += 1
        self.bytes_out += len(batch)
        try:
            taken = self._pipe.send_nowait([batch])
        except BrokenLink:
            # The reader will see the end of the stream.
            self._is_broken = True
            return True
        if taken == len(batch):
            return True
        self._rest = advance([batch], taken)
        return False

    async def drain(self) -> None:
        """Wait until all that was put is written, also what is put meanwhile; the end of the pipe ends it, too."""
        while self._rest or not self.send():
            try:
                self._rest = advance(self._rest, await self._pipe.send_some(self._rest))
            except BrokenLink:
                self._is_broken, self._rest = True, []

    async def batches(self) -> AsyncGenerator[Iterator[Message], None]:
        """What comes, read by read; ends with the pipe."""
        unpacker = self._unpacker
        while data := await self._pipe.receive(_READ):
            self.bytes_in += len(data)
            self._silent_since = trio.current_time()
            unpacker.feed(data)
            yield unpacker

    async def aclose(self) -> None:
        """Close at once."""
        await self._pipe.aclose()
