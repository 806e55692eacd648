"""Reading nginx's configuration: words, blocks, includes, inheritance, and what a WebSocket lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.doctor import nginx
from gateway.doctor.finding import Level, Trouble
from tests.clients.nginx import CONFIGURATION

HEADERS = """proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection 'upgrade';
  proxy_set_header Host "$http_host"; proxy_set_header Forwarded "";
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"""
LOCATION = f"proxy_pass http://gateway; proxy_http_version 1.1; {HEADERS}"


def found(tmp_path: Path, location: str, *, around: str = "", words: str = "= /ws", ping: float = 25.0) -> list[str]:
    file = tmp_path / "nginx.conf"
    file.write_text(f"http {{ server {{ {around}\n location {words} {{ {location} }} }} }}\n")
    return [f"{each.level} {each.detail}" for each in nginx.examine(file, "/ws", ping)]


WELL = ["ok has what a WebSocket needs"]


def test_the_project_s_own() -> None:
    [well] = nginx.examine(CONFIGURATION, "/ws", 25.0)
    assert (well.level, well.what) == (Level.OK, f"nginx {CONFIGURATION}, location = /ws")


@pytest.mark.parametrize("words", ["= /ws", "/ws", "^~ /w", "~ ^/ws$", "~* /WS"])
def test_locations(tmp_path: Path, words: str) -> None:
    assert found(tmp_path, LOCATION, words=words) in (WELL, ["FAIL no location is for /ws"])
    assert (found(tmp_path, LOCATION, words=words) == WELL) == (words != "~* /WS")


@pytest.mark.parametrize("words", ["/", "= /other", "~ ((", "@name"])
def test_locations_of_others(tmp_path: Path, words: str) -> None:
    assert found(tmp_path, LOCATION, words=words) == ["FAIL no location is for /ws"]


@pytest.mark.parametrize(
    ("word", "instead", "fault"),
    [
        ("proxy_http_version 1.1;", "", "FAIL it asks the gateway by HTTP 1.0"),
        ("proxy_set_header Upgrade $http_upgrade;", "", "FAIL the header upgrade is not passed on"),
        ("'upgrade'", '""', "FAIL the header connection is not passed on"),
        ('Host "$http_host";', "Hosts x;", "FAIL the header host is not passed on"),
        ("$proxy_add_x_forwarded_for", "$http_x_forwarded_for", "warn the header x-forwarded-for is not passed on"),
        ('Forwarded "";', "Other x;", "warn a client's own Forwarded passes through, and the gateway would believe it"),
        ("proxy_pass http://gateway;", "", "FAIL it passes nothing on"),
        ("proxy_pass", "proxy_read_timeout 20s; proxy_pass", "FAIL proxy_read_timeout is 20 s, and the gateway pings"),
        ("proxy_pass", "proxy_read_timeout 1m30s; proxy_pass", "ok"),
    ],
)
def test_what_is_missing(tmp_path: Path, word: str, instead: str, fault: str) -> None:
    assert word in LOCATION
    [told] = found(tmp_path, LOCATION.replace(word, instead))
    assert told.startswith(fault)


def test_a_gateway_that_does_not_ping(tmp_path: Path) -> None:
    assert found(tmp_path, LOCATION, ping=0.0) == ["FAIL an idle WebSocket is cut after 60 s, for websocket_ping is 0"]


def test_inheritance(tmp_path: Path) -> None:
    assert found(tmp_path, "proxy_pass http://a;", around=f"proxy_http_version 1.1; {HEADERS}") == WELL
    own = "proxy_pass http://a; proxy_set_header X-Own 1;"
    assert len(found(tmp_path, own, around=f"proxy_http_version 1.1; {HEADERS}")) == 5


def test_comments_and_quotes(tmp_path: Path) -> None:
    noise = '# } " \'\n log_format main \'$a } "x" ; {\'; map $x ${y} { "~a{2}" 1; }'
    assert found(tmp_path, LOCATION, around=noise) == WELL


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "ws.conf").write_text(f"{HEADERS} include nginx.conf; include ws.conf;")
    assert found(tmp_path, "proxy_pass http://a; proxy_http_version 1.1; include more/*.conf;") == WELL
    assert found(tmp_path, f"proxy_pass http://a; proxy_http_version 1.1; include {tmp_path}/more/w*;") == WELL
    dumped = f"# configuration file /etc/nginx/nginx.conf:\ninclude {tmp_path}/more/*;\n"
    assert len(found(tmp_path, f"proxy_pass http://a; include {tmp_path}/more/*;", around=dumped)) == 6


@pytest.mark.parametrize("text", ["http { server {", "server }", "http { } }", "listen 80"])
def test_what_is_no_configuration(tmp_path: Path, text: str) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text(text)
    with pytest.raises(Trouble, match=r"nginx\.conf (ends in the middle|has a } too many)"):
        nginx.read(file)
    assert "nginx -t" in next(nginx.examine(file, "/ws", 25.0)).remedy


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read: is a directory" in next(nginx.examine(tmp_path, "/ws", 25.0)).detail
