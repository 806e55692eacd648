"""Tokens (JWT), verified by keys of a file.

The algorithm must be one of the key's own (`keys`); the token's header cannot choose another.  A token without `exp` is
accepted, and its session never expires: the issuer decides.  A client is told if its token has expired or is not valid
yet, because only a user of the issuer has such a token; all other reasons stand in the log only, without the token.

Verification runs on the loop, where it takes some 60 us for HS256, 100 for RS256, 140 for ES256 and EdDSA (measured on
a 2-core machine), or in a worker thread, if the key is slow or the token does not name its key and many fit.
"""

import math
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import structlog
import trio

from gateway.auth.claims import find, groups_of, user_of
from gateway.auth.file_watch import WatchedFile
from gateway.auth.keys import Key, read_keys
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity

MAX_LENGTH = 16 * 1024  # bytes of a token. A long one lists hundreds of groups, and takes no longer to verify.
THREADS = 2  # slow verifications at a time

_LATEST_END = 200 * 366 * 86_400
"""Seconds until the end of a token.  A later end was written in milliseconds, which is thousands of years away."""

_TRIED = 2  # keys that are tried on the loop, without a thread

_FORM = re.compile(r"ey[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*")
_LONGEST_REASON = 200
_LONGEST_KID = 80

log = structlog.get_logger("gateway.auth")


def looks_like_token(text: str) -> bool:
    """True if the text has the form of a JWT: `{"` in base64, and two dots."""
    return _FORM.fullmatch(text) is not None


class Tokens:
    """The authenticator of tokens; raises SettingsError where the file of keys cannot be used.

    An empty `issuer` or `audience` allows any, an empty `groups_claim` gives no groups; `leeway` is in seconds.
    """

    def __init__(
        self,
        path: Path,
        *,
        issuer: str = "",
        audience: str = "",
        user_claim: str = "sub",
        groups_claim: str = "groups",
        leeway: float = 10.0,
    ) -> None:
        self.keys = WatchedFile("jwt_keys", path, read_keys)
        self._checks: dict[str, Any] = {
            "issuer": issuer or None,
            "audience": audience or None,
            "leeway": leeway,
            "options": {"verify_aud": bool(audience), "verify_sub": False, "verify_jti": False},
        }
        self._user_claim = user_claim
        self._groups_claim = groups_claim
        self._leeway = leeway
        self._limiter = trio.CapacityLimiter(THREADS)

    async def identify(self, token: str, address: str = "") -> Identity:
        """The user of a token; raises LoginRefused.  The address is for the log."""
        try:
            return await self._identify(token)
        except LoginRefused as error:
            log.info("token refused", reason=error.why, address=address, kid=_kid_of(token))
            raise

    async def _identify(self, token: str) -> Identity:
        keys = await self.keys.fresh()
        if len(token) > MAX_LENGTH:
            raise _refusal("it is too long", f"the token has more than {MAX_LENGTH} bytes; put fewer groups into it")
        try:
            claims = await self._verify(token, keys)
            expires = float(claims["exp"]) + self._leeway if "exp" in claims else math.inf
        except jwt.ExpiredSignatureError:
            raise _refusal("it has expired", "the token has expired; log in with a new one") from None
        except jwt.ImmatureSignatureError:
            detail = "the token is not valid yet; do the clocks agree (jwt_leeway)?"
            raise _refusal("it is not valid yet", detail) from None
        except jwt.PyJWTError as error:
            raise _refusal(str(error)[:_LONGEST_REASON]) from None
        except Exception as error:  # noqa: BLE001 - a hostile token may cause any error in a parser
            raise _refusal(f"it cannot be read: {type(error).__name__}") from None
        if expires != math.inf and expires - time.time() > _LATEST_END:
            reason = "its exp is more than 200 years away; write it in seconds, not in milliseconds"
            raise _refusal(reason, f"the token cannot be right: {reason}")
        user = user_of(find(claims, self._user_claim))
        if user is None:
            raise _refusal(f"its claim {self._user_claim} holds no user's name (jwt_user_claim)")
        groups = groups_of(find(claims, self._groups_claim)) if self._groups_claim else frozenset()
        return Identity(user, groups, expires, "token")

    async def _verify(self, token: str, keys: list[Key]) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        fitting = [key for key in keys if algorithm in key.algorithms and (not key.kid or kid in (None, key.kid))]
        if not fitting:
            shown = str(kid)[:_LONGEST_KID]
            raise jwt.InvalidKeyError(f"no key for algorithm {str(algorithm)[:20]!r} and kid {shown!r}")
        if len(fitting) <= _TRIED and not any(key.is_slow for key in fitting):
            return self._claims(token, fitting)
        return await trio.to_thread.run_sync(
            self._claims, token, fitting, limiter=self._limiter, abandon_on_cancel=True
        )

    def _claims(self, token: str, keys: list[Key]) -> Mapping[str, Any]:
        for key in keys[:-1]:
            try:
                return self._claims_by(token, key)
            except jwt.InvalidSignatureError:  # of another key, perhaps
                continue
        return self._claims_by(token, keys[-1])

    def _claims_by(self, token: str, key: Key) -> Mapping[str, Any]:
        return jwt.decode(token, key.key, algorithms=sorted(key.algorithms), **self._checks)


def _refusal(reason: str, detail: str = "") -> LoginRefused:
    # The reason is for the log.  It is no guess: a signature cannot be guessed.
    detail = detail or "this server does not accept the token; its log says why"
    return LoginRefused(detail, is_guess=False, method="token", why=reason)


def _kid_of(token: str) -> str | None:
    """The key that a refused token names, in ASCII without line ends; None: none."""
    if len(token) > MAX_LENGTH:
        return None
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except Exception:  # noqa: BLE001 - as in `_identify`
        return None
    return None if kid is None else ascii(kid[:_LONGEST_KID])
