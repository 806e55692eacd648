"""Tokens (JWT), verified by keys of a file.

The algorithm must be one of the key's own (`keys` says which those are), whatever the token's header says.  What is
checked: the signature, `exp`, `nbf` and `iat` with `jwt_leeway`, and `iss` and `aud` where the settings name them.  A
token without `exp` is accepted, and its session never expires: the issuer decides.

A client is told that its token has expired, or does not count yet: who can show it has been a user of the issuer's.
Whatever else is wrong stands in the log only, and without the token.

Verification runs on the loop, where it takes some 60 us for HS256, 100 for RS256, 140 for ES256 and EdDSA (measured on
a 2-core machine), or in a worker thread, if the key is a slow one, or a token does not say which of many it is.
"""

from __future__ import annotations

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
from gateway.auth.keys import Key, read_keys
from gateway.auth.watched import Watched
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity

MAX_OCTETS = 16 * 1024
"""Octets of a token.  Large ones list hundreds of groups; this one's verification takes no longer than others'."""

THREADS = 2
"""Slow verifications at a time."""

_FARTHEST = 200 * 366 * 86_400
"""Seconds until the end of a token.  One that is further away was meant to be another moment: in milliseconds, it is
thousands of years from now."""

_TRIED = 2
"""Keys that are tried on the loop."""

_FORM = re.compile(r"ey[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*")
_SHOWN = 200
_LONGEST_KID = 80

log = structlog.get_logger("gateway.auth")


def looks_like_token(text: str) -> bool:
    """Whether it has the form of a JWT: `{"` in base64, and two dots."""
    return _FORM.fullmatch(text) is not None


class Tokens:
    """Says who a token is of.

    Args:
        path: of the file of keys.
        issuer, audience: what `iss` and `aud` must be; empty: anything.
        user_claim, groups_claim: where user and groups stand; of the latter empty: nowhere.
        leeway: seconds.

    Raises:
        SettingsError: the file cannot be used.
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
        self.keys = Watched("jwt_keys", path, read_keys)
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
        """Whose token it is.

        Args:
            address: of the client, for the log.

        Raises:
            LoginRefused: it is not accepted.
        """
        try:
            return await self._identify(token)
        except LoginRefused as error:
            log.info("token refused", reason=error.why, address=address, kid=_kid_of(token))
            raise

    async def _identify(self, token: str) -> Identity:
        keys = await self.keys.fresh()
        if len(token) > MAX_OCTETS:
            raise _refusal("it is too long", f"a token has at most {MAX_OCTETS} octets")
        try:
            claims = await self._verify(token, keys)
            expires = float(claims["exp"]) + self._leeway if "exp" in claims else math.inf
        except jwt.ExpiredSignatureError:
            raise _refusal("it has expired", "the token has expired; log in with a new one") from None
        except jwt.ImmatureSignatureError:
            raise _refusal(
                "it is not valid yet", "the token is not valid yet; do the clocks agree (jwt_leeway)?"
            ) from None
        except jwt.PyJWTError as error:
            raise _refusal(str(error)[:_SHOWN]) from None
        except Exception as error:  # noqa: BLE001 - whatever a hostile token makes of a parser is a refusal
            raise _refusal(f"it cannot be read: {type(error).__name__}") from None
        if expires != math.inf and expires - time.time() > _FARTHEST:
            reason = "its exp is more than 200 years away, and counts seconds; is it in milliseconds?"
            raise _refusal(reason, f"the token cannot be right: {reason}")
        user = user_of(find(claims, self._user_claim))
        if user is None:
            raise _refusal(f"its claim {self._user_claim} is no user's name (jwt_user_claim)")
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
    """What the client is told; and the log, a little more.  Nobody guesses a signature, so it is no guess."""
    told = detail or "the token is not one that this server accepts; its log says why"
    return LoginRefused(told, is_guess=False, method="token", why=reason)


def _kid_of(token: str) -> str | None:
    """Which key a refused token names, in a form that breaks no line; None: none."""
    if len(token) > MAX_OCTETS:
        return None
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except Exception:  # noqa: BLE001 - see `_identify`
        return None
    return None if kid is None else ascii(kid[:_LONGEST_KID])
