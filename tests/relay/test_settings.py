"""Plans out of options and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client import StompServer
from gateway.config.command_file import PlanError
from gateway.relay import settings
from gateway.relay.settings import Route, make, read
from tests.transports.tls_files import authority

ONE, TWO = StompServer("one"), StompServer("two", 61_614)


@pytest.mark.parametrize(
    ("text", "route", "is_pattern"),
    [
        ("/queue/a", Route("/queue/a"), False),
        ("/queue/a=/queue/b", Route("/queue/a", "/queue/b"), False),
        ("/topic/a.>=/topic/a", Route("/topic/a.>", "/topic/a"), True),
        ("/topic/a.#", Route("/topic/a.#"), True),
    ],
)
def test_routes(text: str, route: Route, is_pattern: bool) -> None:
    (found,) = make(ONE, TWO, [text]).routes
    assert (found, found.is_pattern) == (route, is_pattern)


@pytest.mark.parametrize(
    ("destinations", "more", "sentence"),
    [
        ([], {}, "no destination is named"),
        (["=/queue/a"], {}, "names no destination"),
        (["/queue/a=/topic/a.>"], {}, "goes to a pattern"),
        (["/queue/a", "/queue/a=/queue/b"], {}, "is named twice"),
        (["/queue/a"], {"name": "a,b"}, "no name of a relay"),
        (["/queue/a"], {"prefetch": 0}, "prefetch is 0, and must be from 1 to"),
    ],
)
def test_what_is_no_plan(destinations: list[str], more: dict[str, object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        make(ONE, TWO, destinations, **more)  # type: ignore[arg-type]


def test_both_directions_have_one_name() -> None:
    there, back = make(ONE, TWO, ["a"]), make(TWO, ONE, ["a"])
    assert there.name == back.name == "one:61613-two:61614"
    assert make(ONE, TWO, ["a"], name="x").name == "x"


FILE = """
[[relay]]
from = "stomp://a@one"
from_passcode_file = "passcode"
to = "stomps://two:61614"
to_ca = "ca.pem"
to_vhost = "/"
destinations = ["/queue/a", "/topic/b=/topic/c"]
prefetch = 5
durable = true
client_id = "me"
name = "here"

[[relay]]
from = "stomp://two"
to = "stomp://one"
destinations = ["/queue/c"]
"""


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "passcode").write_text("secret\n")
    authority().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "relay.toml").write_text(FILE)
    orders = read(tmp_path / "relay.toml")
    first, second = orders.plans
    assert orders.http is None
    assert (first.source.login, first.source.passcode) == ("a", "secret")
    assert (first.source.ca, first.target.ca) == ("", str(tmp_path / "ca.pem"))
    assert (first.source.tls, first.target.tls, first.target.port, first.target.vhost) == (False, True, 61_614, "/")
    assert first.source.headers == {"client-id": "me"}
    assert first.target.headers == {}
    assert (first.prefetch, first.durable, first.name) == (5, True, "here")
    assert first.routes == (Route("/queue/a"), Route("/topic/b", "/topic/c"))
    assert (second.prefetch, second.durable) == (settings.PREFETCH, False)


TABLE = '[[relay]]\nfrom = "stomp://a"\nto = "stomp://b"\ndestinations = ["x"]\n'
SECURED = TABLE.replace("stomp://b", "stomps://b")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"has no table \[\[relay\]\]"),
        ("x = 1", "'x' is unknown"),
        ("x = ", "line 1: x has no value"),
        (TABLE + TABLE + 'fron = "a"', "number 2: 'fron' is unknown; did you mean from"),
        (TABLE + 'prefetch = "1"', "prefetch must be a whole number"),
        (TABLE + "durable = 1", "durable must be true or false"),
        (TABLE.replace('["x"]', '"x"'), "destinations must be a list of strings"),
        (TABLE.replace('"stomp://a"', '""'), "from is missing"),
        (TABLE.replace("stomp://a", "stomp://a/queue/x"), "has a destination"),
        (TABLE.replace("stomp://a", "stomp://a:b@c"), "put it into a file that from_passcode_file names"),
        (TABLE + 'to_passcode_file = "gone"', "gone cannot be read: No such file"),
        (SECURED + 'to_ca = "gone"', "the file of authorities .*gone cannot be read: No such file"),
        (TABLE + 'to_ca = "a.pem"', "'stomp://b' has no TLS, and certificates are for TLS: write stomps://"),
        (SECURED + 'to_cert = "relay.toml"', "toml has no certificate with its key in PEM; the key may have a file"),
        ("http = 9000\n" + TABLE, "relay.toml: http must be a string"),
        ('http = "9000"\n' + TABLE, "http is '9000', which is no address: write 127.0.0.1:9000"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "relay.toml").write_text(text)
    with pytest.raises(PlanError, match=sentence):
        read(tmp_path / "relay.toml")


def test_certificates_and_where_it_is_asked(tmp_path: Path) -> None:
    leaf = authority().issue_cert("relay.example")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    (tmp_path / "relay.toml").write_text(
        'http = "[::1]:9000"\n'
        + SECURED.replace("stomp:", "stomps:")
        + 'from_cert = "both.pem"\nto_cert = "both.pem"\n'
        'to_key = "both.pem"\n'
    )
    orders = read(tmp_path / "relay.toml")
    assert str(orders.http) == "[::1]:9000"
    (plan,) = orders.plans
    both = str(tmp_path / "both.pem")
    assert (plan.source.cert, plan.source.key, plan.target.cert, plan.target.key) == (both, "", both, both)
