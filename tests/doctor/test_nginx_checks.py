"""Configurations of nginx, read from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.doctor.model import CheckReport, CheckResult, Level
from gateway.doctor.nginx_checks import check_nginx
from tests.clients.nginx import CONFIGURATION
from tests.doctor.scene import look

HEADERS = """proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection 'upgrade';
  proxy_set_header Host "$http_host"; proxy_set_header Forwarded "";
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"""
LOCATION = f"proxy_pass http://gateway; proxy_http_version 1.1; {HEADERS}"
WELL = ["ok it has all that a WebSocket needs"]


def results(file: Path, ping: float = 25.0) -> list[CheckResult]:
    found: list[CheckResult] = []
    check_nginx(file, "/ws", ping, CheckReport(found.append))
    return found


def found(tmp_path: Path, location: str, *, around: str = "", words: str = "= /ws", ping: float = 25.0) -> list[str]:
    file = tmp_path / "nginx.conf"
    file.write_text(f"http {{ server {{ {around}\n location {words} {{ {location} }} }} }}\n")
    return [f"{each.level} {each.detail}" for each in results(file, ping)]


async def test_the_project_s_own_file_is_well() -> None:
    [well] = await look(nginx=CONFIGURATION)
    assert (well.level, well.what) == (Level.OK, f"nginx {CONFIGURATION}, location = /ws")


@pytest.mark.parametrize(
    ("words", "is_ours"),
    [
        ("= /ws", True),
        ("/ws", True),
        ("~ ^/ws$", True),
        ("/", False),
        ("~ ((", False),
    ],
)
def test_only_locations_for_the_path_count(tmp_path: Path, words: str, is_ours: bool) -> None:
    assert found(tmp_path, LOCATION, words=words) == (WELL if is_ours else ["FAIL it has no location for /ws"])


@pytest.mark.parametrize(
    ("word", "instead", "fault"),
    [
        ("proxy_http_version 1.1;", "", "FAIL it uses HTTP 1.0 to the gateway"),
        ("'upgrade'", '""', "FAIL the header connection is not passed on"),
        ('Host "$http_host";', "Hosts x;", "FAIL the header host is not passed on"),
        ("$proxy_add_x_forwarded_for", "$http_x_forwarded_for", "warn the header x-forwarded-for is not passed on"),
        ('Forwarded "";', "Other x;", "warn the header Forwarded of a client is passed on"),
        ("proxy_pass http://gateway;", "", "FAIL it has no proxy_pass"),
        ("proxy_pass", "proxy_read_timeout 20s; proxy_pass", "FAIL proxy_read_timeout is 20 s, and the gateway pings"),
        ("proxy_pass", "proxy_read_timeout 1m30s; proxy_pass", "ok"),
    ],
)
def test_each_missing_directive_is_named(tmp_path: Path, word: str, instead: str, fault: str) -> None:
    assert word in LOCATION
    [told] = found(tmp_path, LOCATION.replace(word, instead))
    assert told.startswith(fault)


def test_a_connection_header_may_be_a_variable_and_without_pings_any_time_out_is_too_short(tmp_path: Path) -> None:
    for variable in ("$connection_upgrade", "$of_the_map"):
        assert found(tmp_path, LOCATION.replace("'upgrade'", variable)) == WELL
    cut = "FAIL an idle WebSocket is cut after 60 s, because websocket_ping is 0"
    assert found(tmp_path, LOCATION, ping=0.0) == [cut]
    [fault] = results(tmp_path)
    assert "cannot be read: is a directory" in fault.detail


def test_directives_are_inherited_unless_the_block_has_its_own(tmp_path: Path) -> None:
    around = f"proxy_http_version 1.1; {HEADERS}"
    assert found(tmp_path, "proxy_pass http://a;", around=around) == WELL
    assert len(found(tmp_path, "proxy_pass http://a; proxy_set_header X-Own 1;", around=around)) == 5


def test_comments_and_quotes_are_no_blocks(tmp_path: Path) -> None:
    noise = '# } " \'\n log_format main \'$a } "x" ; {\'; map $x ${y} { "~a{2}" 1; }'
    assert found(tmp_path, LOCATION, around=noise) == WELL


def test_includes_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "ws.conf").write_text(f"{HEADERS} include nginx.conf; include ws.conf;")
    assert found(tmp_path, "proxy_pass http://a; proxy_http_version 1.1; include more/*.conf;") == WELL
    assert found(tmp_path, f"proxy_pass http://a; proxy_http_version 1.1; include {tmp_path}/more/w*;") == WELL
    dumped = f"# configuration file /etc/nginx/nginx.conf:\ninclude {tmp_path}/more/*;\n"
    assert len(found(tmp_path, f"proxy_pass http://a; include {tmp_path}/more/*;", around=dumped)) == 6


@pytest.mark.parametrize("text", ["http { server {", "server }", "http { } }", "listen 80"])
def test_a_broken_file_is_a_fault(tmp_path: Path, text: str) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text(text)
    [fault] = results(file)
    assert "ends in the middle" in fault.detail or "has a } too many" in fault.detail
    assert "nginx -t" in fault.remedy
