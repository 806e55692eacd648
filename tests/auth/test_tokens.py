"""Tokens: valid ones, and every way in which one can be wrong."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
import trio
from structlog.typing import EventDict

from gateway.auth import tokens
from gateway.auth.keys import read_keys
from gateway.auth.tokens import Tokens, looks_like_token
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity

from .issuer import LONG_SECRET, SECRET, b64, claims, jwk, jwks, private, public_pem, signed, token, write

ALGORITHMS = {
    "HS256": ("", LONG_SECRET),
    "HS512": ("", LONG_SECRET),
    "RS256": ("RSA", None),
    "PS256": ("RSA", None),
    "ES256": ("P-256", None),
    "ES384": ("P-384", None),
    "ES512": ("P-521", None),
    "EdDSA": ("Ed25519", None),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    write(path, SECRET + "\n")
    return path


async def refused(found: Tokens, text: str) -> LoginRefused:
    with pytest.raises(LoginRefused) as error:
        await found.identify(text)
    assert text not in error.value.detail
    return error.value


async def reason(found: Tokens, text: str, logged: list[EventDict]) -> str:
    logged.clear()
    error = await refused(found, text)
    assert error.detail == "this server does not accept the token; its log says why"
    assert not error.is_guess
    assert [line["event"] for line in logged] == ["token refused"]
    assert text not in str(logged)
    return str(logged[0]["reason"])


def test_the_form_of_a_token() -> None:
    for text in ("eyJhbGci.eyJz.c2ln", "eyJhbGci.eyJz.", "ey.."):
        assert looks_like_token(text)
    for text in ("", "secret", "a.b.c", "ey.a", "ey.a.b.c.d", "ey a.b.c", "ey.ä.b", "ey.a.b\n"):
        assert not looks_like_token(text)


class TestAlgorithms:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    async def test_each(self, path: Path, algorithm: str) -> None:
        kind, secret = ALGORITHMS[algorithm]
        write(path, secret or public_pem(kind))
        text = token(algorithm, secret or private(kind), groups=["ops"])
        found = await Tokens(path).identify(text)
        assert (found.user, found.groups, found.method) == ("alice", frozenset({"ops"}), "token")
        head, body, signature = text.split(".")
        wrong = ("B" if signature[0] == "A" else "A") + signature[1:]
        assert not (await refused(Tokens(path), f"{head}.{body}.{wrong}")).is_guess

    async def test_keys_by_name(self, path: Path, logged: list[EventDict]) -> None:
        write(path, jwks(jwk("RSA", 1, kid="a"), jwk("RSA", 2, kid="b"), jwk("P-256", kid="c"), jwk("RSA", 3)))
        found = Tokens(path)
        for number, kid in [(1, "a"), (2, "b"), (2, None), (3, None), (3, "a"), (3, "z"), (1, None)]:
            assert (await found.identify(token("RS256", private("RSA", number), kid))).user == "alice", (number, kid)
        assert "verification failed" in await reason(found, token("RS256", private("RSA", 2), "a"), logged)
        assert "verification failed" in await reason(found, token("RS256", private("RSA", 2), "c"), logged)
        assert "verification failed" in await reason(found, token("RS256", private("RSA", 9)), logged)
        assert await reason(found, token("ES256", private("P-256"), "a"), logged) == (
            "no key for algorithm 'ES256' and kid 'a'"
        )

    async def test_other_algorithms_than_the_keys(self, path: Path, logged: list[EventDict]) -> None:
        unsigned = jwt.encode(claims(), "", "none")
        assert unsigned.endswith(".")
        assert "no key for algorithm 'none'" in await reason(Tokens(path), unsigned, logged)
        for name in ("None", "NONE", "nOnE", "", None, 5, []):
            await reason(Tokens(path), f"{b64(json.dumps({'alg': name}).encode())}.{b64(b'{}')}.", logged)
        signed_by_rsa = token("RS256", private("RSA"))
        assert "no key for algorithm 'RS256'" in await reason(Tokens(path), signed_by_rsa, logged)
        pem = public_pem("RSA")
        write(path, pem)
        for secret in (pem, pem.strip()):  # a public key is no secret
            forged = signed(secret.encode(), {"alg": "HS256", "typ": "JWT"}, json.dumps(claims()).encode())
            assert "no key for algorithm 'HS256'" in await reason(Tokens(path), forged, logged)


class TestClaims:
    async def test_the_end(self, path: Path) -> None:
        end = int(time.time()) + 90
        assert (await Tokens(path).identify(token("HS256", SECRET, exp=end))).expires == end + 10
        assert (await Tokens(path, leeway=0).identify(token("HS256", SECRET, exp=end + 0.5))).expires == end + 0.5
        found = await Tokens(path).identify(token("HS256", SECRET, exp=None))
        assert (found, found.expires) == (Identity("alice", method="token"), math.inf)

    async def test_expired_or_not_valid_yet(self, path: Path) -> None:
        now = int(time.time())
        early = "the token is not valid yet; do the clocks agree (jwt_leeway)?"
        for claim, at, detail in (
            ("exp", now - 8, "the token has expired; log in with a new one"),
            ("nbf", now + 8, early),
            ("iat", now + 8, early),
        ):
            text = token("HS256", SECRET, None, **{claim: at})
            assert (await Tokens(path).identify(text)).user == "alice", "within the leeway"
            error = await refused(Tokens(path, leeway=2), text)
            assert (error.detail, error.is_guess) == (detail, False)

    async def test_an_end_in_milliseconds(self, path: Path, logged: list[EventDict]) -> None:
        now = int(time.time())
        assert (await Tokens(path).identify(token("HS256", SECRET, exp=now + 10 * 365 * 86_400))).user == "alice"
        for far in (now * 1000, now + 201 * 366 * 86_400):
            logged.clear()
            error = await refused(Tokens(path), token("HS256", SECRET, exp=far))
            assert error.detail == f"the token cannot be right: {logged[0]['reason']}"
            assert logged[0]["reason"].endswith("write it in seconds, not in milliseconds")

    async def test_the_log_has_the_address_and_the_key(self, path: Path, logged: list[EventDict]) -> None:
        with pytest.raises(LoginRefused) as error:
            await Tokens(path).identify(token("HS256", LONG_SECRET, "k\n1"), "192.0.2.7")
        assert [(line["address"], line["kid"]) for line in logged] == [("192.0.2.7", r"'k\n1'")]
        assert logged[0]["reason"] == error.value.why
        assert error.value.method == "token"
        for text in (token("HS256", LONG_SECRET), "ey.a.b", "ey" + "x" * tokens.MAX_LENGTH + ".a.b"):
            logged.clear()
            await refused(Tokens(path), text)
            assert [(line["address"], line["kid"]) for line in logged] == [("", None)]

    async def test_issuer_and_audience(self, path: Path, logged: list[EventDict]) -> None:
        found = Tokens(path, issuer="https://idp", audience="gateway")
        for audience in ("gateway", ["other", "gateway"]):
            await found.identify(token("HS256", SECRET, iss="https://idp", aud=audience))
        for wrong in (
            {"aud": "gateway"},
            {"iss": "https://idp"},
            {"iss": "https://idp", "aud": "other"},
            {"iss": "https://idp/", "aud": "gateway"},
            {"iss": "https://idp", "aud": ["gatewa", "y"]},
            {"iss": "https://idp", "aud": {"gateway": 1}},
            {"iss": "https://idp", "aud": None},
        ):
            await reason(found, token("HS256", SECRET, **wrong), logged)
        assert (await Tokens(path).identify(token("HS256", SECRET, iss="x", aud="y"))).user == "alice", "not asked for"

    async def test_user_and_groups(self, path: Path) -> None:
        found = Tokens(path, user_claim="email", groups_claim="realm_access.roles")
        text = token("HS256", SECRET, email="a@b", realm_access={"roles": ["x", "y"]}, sub=7)
        identity = await found.identify(text)
        assert (identity.user, identity.groups) == ("a@b", frozenset({"x", "y"}))
        assert (await Tokens(path, groups_claim="").identify(token("HS256", SECRET, groups=["x"]))).groups == set()
        assert (await Tokens(path).identify(token("HS256", SECRET, groups="x y"))).groups == {"x", "y"}


async def test_hostile_tokens(path: Path, logged: list[EventDict]) -> None:
    for payload in (
        *(b"", b"[]", b"5", b"{", b"\xff", b"[" * 5000),
        *(b'{"sub":"a","exp":"x"}', b'{"sub":"a","exp":1e400}', b'{"sub":"a","exp":NaN}', b'{"sub":"a","exp":null}'),
        *(b'{"sub":"a","exp":[1]}', b'{"sub":"a","exp":' + b"9" * 5000 + b"}"),
        *(b'{"sub":"a","nbf":"x"}', b'{"sub":"a","iat":{}}'),
    ):
        await refused(Tokens(path), signed(SECRET.encode(), {"alg": "HS256"}, payload))
    for text in ("", ".", "..", "a.b.c", "ey.ey.ey", "eyJ.e30.", f"{b64(b'[]')}.e30.x", "ä.b.c"):
        with pytest.raises(LoginRefused):
            await Tokens(path).identify(text)
    error = await refused(Tokens(path), token("HS256", SECRET, padding="x" * tokens.MAX_LENGTH))
    assert error.detail == "the token has more than 16384 bytes; put fewer groups into it"
    text = signed(SECRET.encode(), {"alg": "HS256", "crit": ["x"]}, json.dumps(claims()).encode())
    assert "critical" in await reason(Tokens(path), text, logged)
    write(path, public_pem("RSA"))
    header = {"jwk": jwk("RSA", 7), "jku": "https://evil.example/keys", "x5u": "https://evil.example"}
    forged = jwt.encode(claims(), private("RSA", 7), "RS256", headers=header)
    assert "verification failed" in await reason(Tokens(path), forged, logged), "a key in the header is ignored"


@pytest.mark.parametrize(
    ("keys", "algorithm", "kid", "threads"),
    [
        (["RSA"], "RS256", None, 0),
        (["P-521"], "ES512", None, 1),
        (["P-256"] * 2, "ES256", None, 0),
        (["P-256"] * 3, "ES256", None, 1),
        (["P-256"] * 3, "ES256", "0", 0),
    ],
)
async def test_slow_keys_are_tried_in_a_thread(
    path: Path, keys: list[str], algorithm: str, kid: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, jwks(*[jwk(kind, number, kid=str(number)) for number, kind in enumerate(keys)]))
    found, run, ran = Tokens(path), trio.to_thread.run_sync, []

    async def count(call: Any, *arguments: object, **how: Any) -> object:
        ran.append(call)
        return await run(call, *arguments, **how)

    assert [key.is_slow for key in read_keys(path)] == [keys == ["P-521"]] * len(keys)
    monkeypatch.setattr(trio.to_thread, "run_sync", count)
    assert (await found.identify(token(algorithm, private(keys[0]), kid))).user == "alice"
    await refused(found, token(algorithm, private(keys[0], 99), kid))
    assert len(ran) == 2 * threads
