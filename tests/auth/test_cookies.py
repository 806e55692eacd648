"""Signed cookies, as the real Starlette and Flask sign them."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from pathlib import Path

import pytest
from itsdangerous import TimestampSigner, URLSafeTimedSerializer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.auth import cookies
from gateway.auth.cookies import Cookies
from gateway.broker.errors import LoginRefused
from gateway.files import FileFault
from tests.app.asgi import request

from .issuer import write

KEY = "0123456789abcdef-newest"
OLD = "fedcba9876543210-oldest"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "secrets"
    write(path, f"{KEY}\n\n{OLD}\n")
    return path


async def starlette(data: dict[str, object], key: str = KEY, **options: object) -> str:
    async def log_in(request: Request) -> Response:
        request.session.update(data)
        return Response()

    middleware = [Middleware(SessionMiddleware, secret_key=key, **options)]  # type: ignore[arg-type]
    answer = await request(Starlette(routes=[Route("/", log_in)], middleware=middleware), "/")
    return answer.headers["set-cookie"].partition(";")[0].partition("=")[2]


def flask(data: object, key: str = KEY) -> str:
    options = {"key_derivation": "hmac", "digest_method": hashlib.sha1}
    found = URLSafeTimedSerializer(key, salt="cookie-session", signer_kwargs=options).dumps(data)
    assert isinstance(found, str)
    return found


def signed(data: object, at: float, key: str = KEY) -> str:
    class Signer(TimestampSigner):
        def get_timestamp(self) -> int:
            return int(at)

    return Signer(key).sign(base64.b64encode(json.dumps(data).encode())).decode()


async def refused(found: Cookies, field: str) -> None:
    with pytest.raises(LoginRefused) as error:
        await found.identify(field)
    assert not error.value.is_guess
    assert KEY not in error.value.detail


class TestForms:
    async def test_starlette_and_flask(self, path: Path) -> None:
        value = await starlette({"user": "alice", "groups": ["ops"], "other": 1})
        now = time.time()
        found = await Cookies(path).identify(f"theme=dark; session={value}; x=y")
        assert (found.user, found.groups, found.method) == ("alice", frozenset({"ops"}), "cookie")
        assert now + 43_190 < found.expires < now + 43_210
        for data in (
            {"user": "alice", "groups": {" t": ["ops"]}},
            {"user": "alice", "groups": "ops", "padding": "x" * 2000},
        ):
            value = flask(data)
            assert value.startswith(".") == ("padding" in data), "long ones are compressed"
            found = await Cookies(path).identify(f'session="{value}"')
            assert (found.user, found.groups) == ("alice", frozenset({"ops"}))

    async def test_keys_rotate(self, path: Path) -> None:
        found = Cookies(path)
        for value in (await starlette({"user": "alice"}, OLD), flask({"user": "alice"}, OLD)):
            assert (await found.identify(f"session={value}")).user == "alice"
        write(path, KEY)
        for value in (await starlette({"user": "alice"}, OLD), flask({"user": "alice"}, OLD)):
            await refused(found, f"session={value}")

    async def test_another_name_and_several_of_one_name(self, path: Path) -> None:
        found = Cookies(path, name="sid")
        value = flask({"user": "alice"})
        assert found.is_shown(f"session=x; sid={value}")
        assert not found.is_shown(f"session={value}; xsid=1; sid")
        assert (await found.identify(f"sid=other; sid={value}")).user == "alice"
        await refused(found, "sid=other; " * 4 + f"sid={value}")


async def test_a_cookie_has_an_age(path: Path) -> None:
    for age, accepted in ((0, True), (-8, True), (-30, False), (95, True), (105, False)):
        at = time.time() - age
        found, field = Cookies(path, age=100), f"session={signed({'user': 'alice'}, at)}"
        if accepted:
            assert (await found.identify(field)).expires == int(at) + 100
        else:
            await refused(found, field)


async def test_forged_cookies_and_cookies_without_a_user(path: Path) -> None:
    for data in ({"user": ""}, {"user": None}, {"user": ["alice"]}, {"user": "a\nb"}, {}, [], "alice", 5):
        await refused(Cookies(path), f"session={signed(data, time.time())}")
        await refused(Cookies(path), f"session={flask(data)}")
    another = "another key of that length"
    salted = URLSafeTimedSerializer(KEY, salt="reset-password").dumps({"user": "alice"})
    for wrong in (await starlette({"user": "alice"}, another), flask({"user": "alice"}, another), salted):
        await refused(Cookies(path), f"session={wrong!s}")
    value = await starlette({"user": "alice"})
    changed = (value[:-1], value[1:], value.replace(".", ""))
    for wrong in ("", ".", "..", *changed, "null", "ä", "e30.e30.e30", "." * 9):
        await refused(Cookies(path), f"session={wrong}")
    for content in (b"", b"\xff", b"!", b"[" * 5000, base64.b64encode(b"[" * 50_000)):
        await refused(Cookies(path), f"session={TimestampSigner(KEY).sign(content).decode('latin-1')}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("\n \n", "{path} holds no secret"),
        (f"{KEY}\nshort\n", "line 2 of {path} is a secret of less than 16 bytes, which can be guessed"),
        ("x" * (cookies.MAX_FILE + 1), "{path} is larger than 65536 bytes, so it cannot be a file of secrets"),
    ],
)
def test_files_that_are_wrong(path: Path, content: str, sentence: str) -> None:
    write(path, content)
    with pytest.raises(FileFault) as fault:
        cookies.read_secrets(path)
    assert str(fault.value).startswith(sentence.format(path=path))
    assert KEY not in str(fault.value)
