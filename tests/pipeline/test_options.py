"""Words of options: where things are, what can be a place, moments, and the server that a job sends to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from gateway.auth.passwords import hash_passcode
from gateway.client import StompServer
from gateway.pipeline import paths
from gateway.pipeline.errors import JobFailure, PipelineFailure, UsageFailure
from gateway.pipeline.options import PASSCODE, BrokerUrl, is_fixed, moment, span
from tests.gateway_process import HOST, GatewayProcess, start_gateway


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without settings, with a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for name in ("ARCHIVE", "TABLES"):
        monkeypatch.delenv(f"GATEWAY_{name}", raising=False)


def test_the_option_counts_and_else_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TABLES", str(tmp_path / "variable"))
    assert paths.tables("there/../here") == tmp_path / "here"
    (tmp_path / "gateway.toml").write_text('archive = "of-file"\n')
    assert paths.tables(None) == tmp_path / "variable"
    assert paths.archive(None) == str(tmp_path / "of-file")
    (tmp_path / "gateway.toml").write_text("archives = 1\n")
    with pytest.raises(UsageFailure, match="archives"):
        paths.archive(None)


def test_an_archive_may_be_elsewhere() -> None:
    for text in ("hdfs://host:8020/a", "abfss:/x"):
        assert paths.archive(text) == paths.existing("--archive", text, "a job") == text
        with pytest.raises(UsageFailure, match=f"--archive {text} is not on this machine"):
            paths.folder("--archive", text)
    for text in ("file:///data/a", "FILE:/data/a", "/data/b/../a"):
        assert paths.archive(text) == "/data/a"


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda here: paths.tables(None), "--tables is missing: give it, or set tables in gateway.toml"),
        (lambda here: paths.tables("file"), "--tables {here}/file is not a folder"),
        (lambda here: paths.existing("--archive", f"{here}/x", "a job"), "--archive {here}/x does not exist; a job"),
        (lambda here: paths.make("--tables", here / "file" / "b"), "--tables {here}/file/b cannot be made: Not a dir"),
        (lambda here: paths.writable("--out", here / "none"), "--out: the folder {here}/none does not exist: make it"),
    ],
)
def test_places_that_cannot_be_used(tmp_path: Path, attempt: Callable[[Path], object], sentence: str) -> None:
    with pytest.raises(PipelineFailure) as caught:
        attempt(tmp_path)
    assert str(caught.value).startswith(sentence.format(here=tmp_path))


NOW = datetime(2026, 11, 21, 14, 30, 15, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", NOW),
        ("today", datetime(2026, 11, 21, tzinfo=UTC)),
        ("yesterday", datetime(2026, 11, 20, tzinfo=UTC)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2 H", NOW - timedelta(hours=2)),
        ("2w", NOW - timedelta(days=14)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01 12:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00+01:00", datetime(2026, 3, 1, 11, tzinfo=UTC)),
    ],
)
def test_times(text: str, meant: datetime) -> None:
    found = moment(text, NOW.astimezone(timezone(timedelta(hours=-15))))  # where it is another day
    assert (found, found.tzinfo) == (meant, UTC)


@pytest.mark.parametrize("text", ["soon", "2y", "2026-13-01", "999999999w", "0001-01-01T00:00+01:00"])
def test_invalid_times(text: str) -> None:
    with pytest.raises(UsageFailure, match="is no moment; write now, today"):
        moment(text, NOW)


def test_ranges() -> None:
    assert span("2h", "now", NOW) == (NOW - timedelta(hours=2), NOW)
    for since, until in (("now", "2h"), ("1h", "60m")):
        with pytest.raises(UsageFailure, match=r"UTC, is empty: --until must be later"):
            span(since, until, NOW)
    assert [text for text in ("now", "today", "2h", "2026-03-01") if is_fixed(text)] == ["2026-03-01"]


@pytest.mark.parametrize(
    ("url", "broker", "shown"),
    [
        ("stomp://there", BrokerUrl(StompServer("there", 61_613)), "stomp://there:61613"),
        ("stomp://anna@there:7", BrokerUrl(StompServer("there", 7, login="anna")), "stomp://there:7"),
        (
            "stomps://a%40b@There/",
            BrokerUrl(StompServer("there", 61_613, login="a@b", tls=True)),
            "stomps://there:61613",
        ),
        ("stomp://[::1]:7/topic/x.y", BrokerUrl(StompServer("::1", 7), "/topic/x.y"), "stomp://[::1]:7"),
    ],
)
def test_urls(url: str, broker: BrokerUrl, shown: str) -> None:
    assert BrokerUrl.of(url) == broker
    assert str(broker) == shown


@pytest.mark.parametrize("url", ["", "there:61613", "http://there", "stomp://", "stomp://there:port", "stomp://h?x=1"])
def test_urls_without_a_server(url: str) -> None:
    with pytest.raises(UsageFailure, match="names no STOMP server: write stomp://user@host:port"):
        BrokerUrl.of(url)
    with pytest.raises(UsageFailure, match="put it into GATEWAY_PIPELINE_PASSCODE") as caught:
        BrokerUrl.of("stomp://anna:secret@there")
    assert "secret" not in str(caught.value)


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSCODE, raising=False)
    told = {"host": "there", "port": "7", "ssl": "true", "login": "anna"}
    assert BrokerUrl.of("stomps://anna@there:7").options() == told
    monkeypatch.setenv(PASSCODE, "secret")
    assert BrokerUrl.of("stomps://anna@there:7").options() == told | {"passcodeEnv": PASSCODE}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GatewayProcess]:
    (tmp_path / "users.txt").write_text(f"anna:{hash_passcode('secret')}\n")
    with start_gateway(users_file=tmp_path / "users.txt") as process:
        yield process


def test_login(guarded: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerUrl.of(f"stomp://anna@{HOST}:{guarded.tcp_port}")
    monkeypatch.setenv(PASSCODE, "secret")
    assert broker.check().startswith("stomp-gateway")
    monkeypatch.setenv(PASSCODE, "wrong")
    with pytest.raises(JobFailure) as caught:
        broker.check()
    assert str(caught.value).startswith(f"{HOST}:{guarded.tcp_port} says: ")
    assert "\n" not in str(caught.value)
