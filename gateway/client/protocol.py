"""The client's side of STOMP without I/O: bytes to frames and back, by the version agreed.

The decoder of the codec reads frames of clients.  Frames of a server have the same grammar but for the first:
CONNECTED, or an ERROR in its place, is read as STOMP 1.0, which unescapes nothing.  The version that CONNECTED names
decodes all later frames, even those of the same chunk.
"""

from collections.abc import Iterator, Mapping, Sequence

from gateway.codec import V10, V12, VERSIONS, Decoder, Frame, Limits
from gateway.codec.encoder import frame
from gateway.codec.headers import escape

# A client trusts its server: only a body that an Arrow column cannot hold is refused.
_LIMITS = Limits(headers=10_000, header_line=1024**2, body=1024**3, origin="")


class ClientProtocol:
    """One session.

    `send_interval`: seconds within which the server expects a heart-beat; 0: never.  `receive_interval`: seconds within
    which the server sends one; 0: it does not.
    """

    def __init__(self) -> None:
        self.version = V10  # the version agreed; 1.0 before CONNECTED
        self.server = ""  # the header `server` of CONNECTED, or ""
        self.send_interval = self.receive_interval = 0.0
        self._offered = (0, 0)
        self._decoder = Decoder(_LIMITS)
        self._decoder.begin(V10, _LIMITS)

    def connect(self, headers: Mapping[str, str]) -> bytes:
        """CONNECT, unescaped (ENC-05)."""
        self._offered = _intervals(headers)
        lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
        return f"CONNECT\n{lines}\n\0".encode()

    @property
    def incomplete(self) -> bool:
        """True in the middle of a frame."""
        return bool(self._decoder.incomplete)

    def receive(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that this chunk completes; to be read to the end before the next chunk.

        Raises ProtocolError: the bytes are not STOMP.
        """
        self._decoder.feed(chunk)
        for each in self._decoder.frames():
            if each.head.command == "CONNECTED":
                self._begin(each.headers)
            yield each

    def _begin(self, connected: Mapping[str, str]) -> None:
        named = {version.name: version for version in VERSIONS}
        self.version = named.get(connected.get("version", "1.0"), V10)
        self.server = connected.get("server", "")
        self._decoder.begin(self.version, _LIMITS)
        (send, receive), (theirs, ours) = self._offered, _intervals(connected)
        if send and ours:
            self.send_interval = max(send, ours) / 1000
        if receive and theirs:
            self.receive_interval = max(receive, theirs) / 1000

    def encode(self, command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        return frame(command, headers, body, version=self.version)

    def acks(self, subscription: str, handles: Sequence[str], receipt: str = "") -> bytes:
        """ACK frames for messages of a subscription; the last one asks for the receipt, if there is a name for it.

        `handles`: as `handle_of` reads them.
        """
        if not handles:
            return b""
        version = self.version
        begin = "ACK\nid:"
        if not version.ack_id:
            about = f"subscription:{escape(subscription, version)}\n" if version.subscription_id else ""
            begin = f"ACK\n{about}message-id:"
        text = "".join(handles)
        if not version.lenient and ("\\" in text or ":" in text or "\n" in text or "\r" in text):
            handles = [escape(handle, version) for handle in handles]
        last = f"\nreceipt:{receipt}\n\n\0" if receipt else "\n\n\0"
        return (begin + ("\n\n\0" + begin).join(handles) + last).encode()

    def nack(self, subscription: str, handle: str, headers: Mapping[str, str]) -> bytes:
        return self.encode("NACK", self.naming(subscription, handle) | dict(headers))

    def naming(self, subscription: str, handle: str) -> dict[str, str]:
        """The headers by which ACK and NACK name a message."""
        return {"id": handle} if self.version is V12 else {"subscription": subscription, "message-id": handle}


def handle_of(message: Frame) -> str:
    """The header of a MESSAGE that its ACK names: `ack` in 1.2, `message-id` before."""
    return message.headers.get("ack") or message.headers.get("message-id", "")


def _intervals(headers: Mapping[str, str]) -> tuple[int, int]:
    """Both numbers of the header `heart-beat`, in milliseconds; 0 where it has none."""
    first, second = [part.strip()[:9] for part in f"{headers.get('heart-beat', '')},".split(",")[:2]]
    return (
        int(first) if first.isascii() and first.isdigit() else 0,
        int(second) if second.isascii() and second.isdigit() else 0,
    )
