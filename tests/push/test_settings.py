"""Settings of a push: the file, and the sentences where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.command_file import PlanError
from gateway.config.values import Address
from gateway.push.settings import read

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SERVER = 'server = "stomp://push@127.0.0.1:61613"\n'
TABLE = '[[push]]\nsource = "/queue/orders"\nurl = "https://shop.example/hook?key=1"\n'


def written(folder: Path, text: str) -> Path:
    (folder / "a.secret").write_text(f"{SECRET}\n")
    (folder / "a.passcode").write_text("geheim\n")
    path = folder / "push.toml"
    path.write_text(text)
    return path


def test_all_keys(tmp_path: Path) -> None:
    more = (
        'secret_file = "a.secret"\nconcurrency = 3\ntimeout = "1 min"\nallow_private = true\nselector = "a = 1"\n'
        'resume = "hooks"\nheaders = {authorization = "Bearer a"}\n'
    )
    begin = f'{SERVER}passcode_file = "a.passcode"\nvhost = "/"\nhttp = "127.0.0.1:9001"\n'
    found = read(written(tmp_path, f"{begin}{TABLE}{more}{TABLE}"))
    assert found.http == Address("127.0.0.1", 9001)
    assert (found.server.passcode, found.server.vhost) == ("geheim", "/")
    first, second = found.plans
    assert (first.source, first.selector, first.resume) == ("/queue/orders", "a = 1", "hooks")
    endpoint = first.endpoint
    assert endpoint.secrets is not None
    assert len(endpoint.secrets.secrets()) == 1
    assert (endpoint.concurrency, endpoint.timeout, endpoint.allow_private) == (3, 60.0, True)
    assert endpoint.name == "https://shop.example/hook", "a query may hold a secret"
    assert (second.endpoint.secrets, second.endpoint.concurrency, second.endpoint.timeout) == (None, 10, 15.0)
    assert "geheim" not in repr(found)
    assert "Bearer" not in repr(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server = ", "push.toml line 1"),
        (TABLE, 'server is missing: write server = "stomp://user@host:port"'),
        (SERVER, "has no table [[push]]"),
        (f"{SERVER}push = 3\n", "has no table [[push]]"),
        (f'{SERVER}sever = "a"\n{TABLE}', "'sever' is unknown; did you mean server"),
        (f"server = 3\n{TABLE}", "server must be a string"),
        (f'server = "http://a"\n{TABLE}', "names no STOMP server"),
        (f'server = "stomp://a:b@c"\n{TABLE}', "a password must not stand in a URL"),
        (f'{SERVER}ca = "none.pem"\n{TABLE}', "certificates are for TLS: write stomps://"),
        (f'server = "stomps://a"\nca = "none.pem"\n{TABLE}', "none.pem cannot be read"),
        (f'{SERVER}passcode_file = "none"\n{TABLE}', "the passcode file"),
        (f'{SERVER}http = "9001"\n{TABLE}', "http is '9001', which is no address"),
        (f'{SERVER}{TABLE}sorce = "a"\n', "[[push]] number 1: 'sorce' is unknown; did you mean source"),
        (f'{SERVER}[[push]]\nurl = "https://a.example"\n', "source is missing"),
        (f'{SERVER}[[push]]\nsource = "/queue/a"\n', "url is missing"),
        (f'{SERVER}[[push]]\nsource = "orders"\nurl = "https://a.example"\n', "write source like /queue/orders"),
        (f'{SERVER}{TABLE}concurrency = "3"\n', "concurrency must be a whole number"),
        (f"{SERVER}{TABLE}concurrency = 0\n", "concurrency is 0, and must be from 1 to 1000"),
        (f"{SERVER}{TABLE}timeout = 0\n", "timeout is 0 s, and must be above 0 and at most 600"),
        (f'{SERVER}{TABLE}timeout = "soon"\n', "timeout: 'soon' is no duration"),
        (f"{SERVER}{TABLE}timeout = true\n", "timeout must be a duration"),
        (f"{SERVER}{TABLE}allow_private = 1\n", "allow_private must be true or false"),
        (f'{SERVER}{TABLE}secret_file = "none"\n', "the secret file"),
        (f'{SERVER}{TABLE}ca = "none.pem"\n', "none.pem cannot be read"),
        (f"{SERVER}{TABLE}headers = 3\n", "headers must be a table of texts"),
        (f'{SERVER}{TABLE}headers = {{Host = "a"}}\n', "'Host' cannot be a header of the request"),
        (f'{SERVER}{TABLE}headers = {{"a b" = "a"}}\n', "'a b' cannot be a header of the request"),
        (f'{SERVER}{TABLE}headers = {{a = "b\\nc"}}\n', "the value of a must be printable ASCII"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        read(written(tmp_path, text))
    assert said in str(refused.value)
    assert "push.toml" in str(refused.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://a.example", "is no URL of an endpoint: write https://host/path"),
        ("https://", "is no URL"),
        ("https://a.example:0/", "is no URL"),
        ("https://a.example:x/", "is no URL"),
        ("https://a.example/#a", "is no URL"),
        ("https://a.example/ b", "percent-encode them"),
        ("https://a.example/\u00e4", "percent-encode them"),
        ("https://a:b@a.example/", "a password must not stand in a URL"),
        ("http://127.0.0.1/", "is no public address; allow_private = true permits it"),
        ("http://[::ffff:10.0.0.1]/", "is no public address"),
    ],
)
def test_urls(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        read(written(tmp_path, f'{SERVER}[[push]]\nsource = "/queue/a"\nurl = "{url}"\n'))
    assert said in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        read(tmp_path / "none.toml")
    (tmp_path / "a.toml").write_bytes(b"\xff")
    with pytest.raises(PlanError, match="it is not UTF-8"):
        read(tmp_path / "a.toml")
