"""The client's side of a WebSocket (RFC 6455), by hand: the doctor wants to see what a library would hide.

That is the status and the words of a refusal, a subprotocol that was not answered, pings, and the code of a Close.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import trio
from websockets.utils import apply_mask

from gateway.transports.wire.websocket_framing import Opcode

from . import http
from .dial import Dialler, HungUp
from .finding import Trouble, shown
from .http import Answer, NoHttp
from .places import Place

SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SWITCHING = 101
_FIN, _MASKED = 0x80, 0x80
_PIECE = 64 << 10
_MOST = 64 << 20  # octets of a message that we take


class WebSocketChannel:
    """Octets of STOMP in WebSocket messages.

    Attributes:
        pinged: a ping has come.
        ending: the Close that came, in words; empty: none did.
    """

    def __init__(self, stream: trio.abc.Stream, behind: bytes = b"") -> None:
        self.pinged = trio.Event()
        self.ending = ""
        self._lock = trio.Lock()  # pongs go out beside what is sent
        self._stream = stream
        self._octets = behind

    async def send(self, octets: bytes) -> None:
        """Send one message; raises HungUp."""
        await self._write(Opcode.BINARY, octets)

    async def receive(self) -> bytes:
        """The payload of the next message, or a part of it; raises HungUp at the end."""
        while True:
            opcode, payload = await self._frame()
            if opcode == Opcode.PING:
                self.pinged.set()
                await self._write(Opcode.PONG, payload)
            elif opcode == Opcode.CLOSE:
                code, reason = int.from_bytes(payload[:2]), shown(payload[2:])
                self.ending = f"WebSocket close code {code}" + (f", {reason!r}" if reason else "")
                raise HungUp
            elif opcode != Opcode.PONG:
                return payload

    async def aclose(self) -> None:
        """Close without waiting."""
        await trio.aclose_forcefully(self._stream)

    async def _write(self, opcode: Opcode, payload: bytes) -> None:
        size, mask = len(payload), os.urandom(4)
        if size < 126:
            head = bytes([_FIN | opcode, _MASKED | size])
        elif size < 65_536:
            head = bytes([_FIN | opcode, _MASKED | 126]) + size.to_bytes(2)
        else:
            head = bytes([_FIN | opcode, _MASKED | 127]) + size.to_bytes(8)
        try:
            async with self._lock:
                await self._stream.send_all(head + mask + apply_mask(payload, mask))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise HungUp from None

    async def _frame(self) -> tuple[int, bytes]:
        first, size = await self._take(2)
        size &= 127
        if size > 125:
            size = int.from_bytes(await self._take(2 if size == 126 else 8))
        if size > _MOST:
            raise HungUp(self._octets)
        return first & 15, await self._take(size)

    async def _take(self, size: int) -> bytes:
        while len(self._octets) < size:
            try:
                chunk = await self._stream.receive_some(_PIECE)
            except trio.BrokenResourceError:
                chunk = b""
            if not chunk:
                raise HungUp(self._octets)
            self._octets += chunk
        taken, self._octets = self._octets[:size], self._octets[size:]
        return taken


async def upgrade(
    dialler: Dialler,
    place: Place,
    *,
    offered: Sequence[str] = SUBPROTOCOLS,
    fields: Mapping[str, str] | None = None,
) -> tuple[Answer, WebSocketChannel | None]:
    """Ask for the upgrade.

    Returns:
        The answer, and the channel; None: it was refused.

    Raises:
        Trouble: there is no answer; NoHttp: none that is HTTP.
    """
    key = base64.b64encode(os.urandom(16))
    wanted = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key.decode(),
        **({"Sec-WebSocket-Protocol": ", ".join(offered)} if offered else {}),
        **(fields or {}),
    }
    stream = await dialler.open(place)
    try:
        with trio.fail_after(dialler.patience):
            await stream.send_all(http.request(place, place.path or "/", wanted))
            head, behind = await http.until_head(stream)
            if http.parse(head, whole=False).status != _SWITCHING:
                refusal = await _refusal(stream, head, behind, dialler.patience / 4)
                await trio.aclose_forcefully(stream)
                return refusal, None
    except trio.TooSlowError:
        await trio.aclose_forcefully(stream)
        raise Trouble(f"no answer to the upgrade within {dialler.patience:g} s", "Look into the proxy's log") from None
    except (HungUp, trio.BrokenResourceError) as error:
        await trio.aclose_forcefully(stream)
        raise NoHttp(error.octets if isinstance(error, HungUp) else b"") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    answer = http.parse(head, whole=False)
    if answer.fields.get("sec-websocket-accept", "").encode() != _accept(key):
        await trio.aclose_forcefully(stream)
        raise Trouble("the answer belongs to another upgrade", "Switch off the cache in front of the WebSocket")
    return answer, WebSocketChannel(stream, behind)


async def _refusal(stream: trio.abc.Stream, head: bytes, octets: bytes, patience: float) -> Answer:
    """The answer with its words, as far as they come: some proxies leave the connection open behind them."""
    with trio.move_on_after(patience), suppress(trio.BrokenResourceError):
        while len(octets) < http.MOST:
            with suppress(NoHttp):
                answer = http.parse(head + octets)
                if answer.fields.keys() & {"content-length", "transfer-encoding"}:
                    return answer
            chunk = await stream.receive_some(_PIECE)
            if not chunk:
                break
            octets += chunk
    try:
        return http.parse(head + octets)
    except NoHttp:
        return http.parse(head, whole=False)


def _accept(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _GUID).digest())
