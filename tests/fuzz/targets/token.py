"""What a client shows to be let in: tokens, tickets, cookies, Basic.  It is an identity, or refused in words.

The first octet says what the rest is; some of it is signed here, for no fuzzer finds a signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import tempfile
from functools import cache
from pathlib import Path

import trio
from itsdangerous import TimestampSigner

from gateway.auth.chain import Chain
from gateway.auth.claims import user_of
from gateway.auth.cookies import Cookies
from gateway.auth.tickets import Tickets
from gateway.auth.tokens import Tokens
from gateway.auth.users import UsersFile
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity, Upgrade

from . import check_refusal, in_memory

SECRET = "0123456789abcdef0123456789abcdef"
_HEADER = base64.urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=")


@cache
def _chain() -> Chain:
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        keys, users = Path(folder) / "keys", Path(folder) / "users"
        keys.write_text(SECRET)
        users.touch()
        parts = {"users": UsersFile(users), "tokens": Tokens(keys), "cookies": Cookies(keys)}
        for file in (parts["users"].file, parts["tokens"].keys, parts["cookies"].secrets):  # type: ignore[attr-defined]
            file._stamp = None  # the folder goes: what was read stays
        return Chain(tickets=Tickets(), **parts)  # type: ignore[arg-type]


def run(octets: bytes) -> None:
    """Show it in one of the ways that there are."""
    kind, rest = octets[:1], octets[1:]
    text = rest.decode("latin-1")
    shown = Credentials(login="alice", passcode=text)
    if kind == b"t":
        shown = Credentials(passcode=_token(rest))
    elif kind == b"h":
        shown = Credentials(passcode=".".join([base64.urlsafe_b64encode(rest).rstrip(b"=").decode(), "e30", ""]))
    elif kind == b"b":
        shown = Credentials(authorization=text)
    elif kind == b"u":
        shown = Credentials(upgrade=Upgrade(authorization=text, origin="https://app.example"))
    elif kind == b"c":
        shown = Credentials(upgrade=Upgrade(cookie=text, origin="https://app.example"))
    elif kind == b"s":
        cookie = TimestampSigner(SECRET).sign(rest).decode("latin-1")
        shown = Credentials(upgrade=Upgrade(cookie=f"session={cookie}", origin="https://app.example"))
    elif kind == b"q":
        shown = Credentials(upgrade=Upgrade(ticket=text))
    try:
        found = trio.run(_chain().authenticate, shown)
    except LoginRefused as refusal:
        check_refusal(refusal)
    else:
        assert found is None or _is_somebody(found)


def _token(payload: bytes) -> str:
    body = _HEADER + b"." + base64.urlsafe_b64encode(payload).rstrip(b"=")
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).digest()
    return (body + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def _is_somebody(identity: Identity) -> bool:
    return user_of(identity.user) == identity.user and all(identity.groups)
