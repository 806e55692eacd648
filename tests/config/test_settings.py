"""Settings: their sources, and the sentences on wrong ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from docs.generate.settings import page
from gateway.broker import Quotas
from gateway.config import reference
from gateway.config.kinds import quantity_of
from gateway.config.settings import Settings, SettingsError, load
from gateway.runtime.gateway import quotas_of


def test_argument_beats_variable_beats_file_beats_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().exposed == []
    (tmp_path / "gateway.toml").write_text('max_body = 2048\nmax_headers = 20\nhttp = ["127.0.0.1:1", "[::1]:1"]\n')
    monkeypatch.setenv("GATEWAY_MAX_BODY", "4096")
    monkeypatch.setenv("GATEWAY_MAX_HEADERS", "30")
    monkeypatch.setenv("GATEWAY_WEBSOCKET", "")  # closes the listener
    monkeypatch.setenv("GATEWAY_TCP", " 127.0.0.1:2 , unix:/x ,")
    monkeypatch.setenv("GATEWAY_USERS_FILE", "")
    for name in ("SERVICE_HOST", "SERVICE_PORT_STOMP", "PORT", "PORT_61613_TCP_ADDR"):  # of Kubernetes, not ours
        monkeypatch.setenv(f"GATEWAY_{name}", "tcp://192.0.2.1:1")
    settings = load(max_body=8192)
    assert (settings.max_body, settings.max_headers) == (8192, 30)
    assert (settings.tcp, settings.websocket) == (["127.0.0.1:2", "unix:/x"], [])
    assert (settings.http, settings.users_file) == (["127.0.0.1:1", "[::1]:1"], None)


def refused(**arguments: object) -> str:
    with pytest.raises(SettingsError) as refusal:
        load(**arguments)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


# Setting, value, and what is wrong with it.
WRONG = [
    ("TCP", "foo", "is wrong: 'foo' is not an address; write host:port, [::1]:port, unix:/path or"),
    ("WEBSOCKET", "unix:", "is wrong: 'unix:' needs a path"),
    ("WEBSOCKET_PATH", "ws", "is wrong: a path starts with /"),
    ("ALLOWED_ORIGINS", "https://a/b", "is wrong: 'https://a/b' is not"),
    ("ALLOWED_ORIGINS", "https://a*.b", "is wrong: 'https://a*.b' matches"),
    ("SERVER_NAME", "my server", "must be printable ASCII without spaces and slashes, not"),
    ("CONNECT_TIMEOUT", "inf", "is wrong: 'inf' is no duration; write one like 250ms, 10s, 5 min, 1h or 7 days"),
    ("CONNECT_TIMEOUT", "0s", 'must be a duration of more than 0 s, at most 10 min, not "0s"'),
    ("MAX_BODY", "1 Mi", "is wrong: '1 Mi' is no number of bytes; write one like 1073741824"),
    ("MEMORY_LIMIT", "", "is wrong: '' is no number of bytes; write one like"),
    ("MAX_HEADERS", "1kB", 'must be a whole number from 10 to 100,000, not "1kB"'),
    ("LENIENT", "maybe", 'must be true or false, not "maybe"'),
    ("LOG_LEVEL", "INFO", 'must be "debug", "info", "warning" or "error", not "INFO"'),
    ("JOURNAL_SYNC", "always", 'must be "none", "interval" or "flush", not "always"'),
    (
        "METRICS_DESTINATIONS",
        "orders",
        "is wrong: 'orders' is no queue and no topic; did you mean /queue/orders or /topic/orders?",
    ),
    ("METRICS_DESTINATIONS", "/queue/", "is wrong: '/queue/' is no pattern"),
    ("TRACE_ENDPOINT", "localhost:4318", "is wrong: 'localhost:4318' is no address of a collector; write a full one"),
    ("TRACE_ENDPOINT", "http://a:sesame@h/v1", "is wrong: 'http://(hidden)@h/v1' has a password in it"),
]
# The same with the whole sentence.
OTHERS = [
    ("MAX_BODY", "1073741824", "settings do not fit together: max_body must be at most a quarter of memory_limit"),
    ("MAX_HEADER_LINE", "300", "settings do not fit together: max_connect_header_line must not be larger than"),
    ("HTTP", "", "settings do not fit together: http, and one of tcp, websocket"),
    ("MAX_OUTBOUND", "65536", "settings do not fit together: max_outbound must be at least twice max_body"),
    ("TCP", "0.0.0.0:61613", "tcp (GATEWAY_TCP): 0.0.0.0:61613 can be reached from other machines, so users_file must"),
    (
        "WEBSOCKET",
        "0.0.0.0:1,[::]:2",
        "websocket (GATEWAY_WEBSOCKET): 0.0.0.0:1, [::]:2 can be reached from other machines, so users_file must",
    ),
]


class TestRefusals:
    @pytest.mark.parametrize(("name", "value", "sentence"), WRONG, ids=[f"{row[0]}={row[1]}" for row in WRONG])
    def test_one_sentence_names_the_setting(
        self, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
    ) -> None:
        monkeypatch.setenv(f"GATEWAY_{name}", value)
        assert refused().startswith(f"{name.lower()} (GATEWAY_{name}) {sentence}")

    @pytest.mark.parametrize(("name", "value", "sentence"), OTHERS, ids=[f"{row[0]}={row[1]}" for row in OTHERS])
    def test_other_sentences(self, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str) -> None:
        monkeypatch.setenv(f"GATEWAY_{name}", value)
        assert refused().startswith(sentence)

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (
                "\n\ntcp = 61613",
                'gateway.toml line 3: tcp must be an address, or a list of them, like ["127.0.0.1:61613"], not 61613',
            ),
            (
                "max_body = 1",
                "gateway.toml line 1: max_body must be a number of bytes from 1 KiB to 1 GiB, not 1 bytes",
            ),
            ("close_linger = 31", "gateway.toml line 1: close_linger must be a duration from 0 s to 30 s, not 31 s"),
            ("close_linger = true", "gateway.toml line 1: close_linger is wrong: it must be a duration, not true"),
            ("trace_ratio = 50", "gateway.toml line 1: trace_ratio must be a number from 0 to 1, not 50"),
            ("handlers = 1", 'gateway.toml line 1: handlers must be "module:attribute", not 1'),
            *[
                (f"store = 'sqlite:{name}'", f"gateway.toml line 1: store is wrong: 'sqlite:{name}' is no store; write")
                for name in (":memory:", "memory", "file:s.db", "file::memory:", "//s.db", "s.db?mode=memory")
            ],
            ('admin_groups = ["ops", " "]', "gateway.toml line 1: admin_groups is wrong: ' ' is no name"),
            ("tcp = '127.0.0.1'", "gateway.toml line 1: tcp is wrong: '127.0.0.1' is not an address; write"),
            ("\n[tcp]\nport = 1", "gateway.toml line 2: tcp must be an address, or a list of them"),
            (
                "tcp = '0.0.0.0:1'",
                "gateway.toml line 1: tcp: 0.0.0.0:1 can be reached from other machines, so users_file",
            ),
        ],
    )
    def test_file(self, tmp_path: Path, text: str, sentence: str) -> None:
        (tmp_path / "gateway.toml").write_text(text)
        assert refused().startswith(sentence)

    def test_of_two_that_do_not_fit_the_place_of_each(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "gateway.toml").write_text("memory_limit = 4_000_000\nmax_body = 1024\n")
        monkeypatch.setenv("GATEWAY_MAX_BODY", "2MB")
        limit = "memory_limit is 4000000 (gateway.toml line 1)"
        assert refused().endswith(f"; max_body is 2000000 (GATEWAY_MAX_BODY), {limit}")
        assert refused(max_body=10**9).endswith(f"; max_body is 1000000000 (argument), {limit}")
        (tmp_path / "gateway.toml").write_text("websocket = []\n")
        monkeypatch.delenv("GATEWAY_MAX_BODY")
        monkeypatch.setenv("GATEWAY_TCP", "")
        assert refused().endswith(
            "must name an address; tcp is [] (GATEWAY_TCP), websocket is [] (gateway.toml line 1)"
        )

    @pytest.mark.parametrize("name", ["admin_token", "metrics_token"])
    def test_a_wrong_token_is_not_repeated(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(f"GATEWAY_{name.upper()}", "open sesame")
        with pytest.raises(SettingsError, match=rf"{name} .* printable ASCII") as refusal:
            load()
        assert "sesame" not in str(refusal.value)
        monkeypatch.setenv(f"GATEWAY_{name.upper()}", "sesame")
        assert "sesame" not in repr(load())
        monkeypatch.delenv(f"GATEWAY_{name.upper()}")
        (tmp_path / "gateway.toml").write_text(f"{name} = 4711\n")
        with pytest.raises(SettingsError, match=name) as refusal:
            load()
        assert "4711" not in str(refusal.value)

    def test_admin_groups_need_an_authenticator_that_knows_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GATEWAY_ADMIN_GROUPS", "ops, root")
        with pytest.raises(SettingsError, match="admin_groups needs an authenticator that knows groups"):
            load()
        monkeypatch.setenv("GATEWAY_USERS_FILE", "users.txt")
        assert load().admin_groups == ["ops", "root"]

    def test_exposed_listeners_need_an_authenticator(self) -> None:
        ways = (
            {"users_file": "users.txt"},
            {"jwt_keys": "keys.pem"},
            {"cookie_keys": "secrets.txt"},
            {"authenticator": "mine:ask"},
            {"tls_client_ca": "ca.pem", "tls_client_certificates": "required"},
        )
        for authenticator in ways:
            settings = load(tcp="0.0.0.0:0", **authenticator)
            assert [str(address) for address in settings.exposed] == ["0.0.0.0:0"]
            assert not settings.anonymous
        assert refused(tcp_tls="0.0.0.0:1").startswith("tcp_tls (GATEWAY_TCP_TLS): 0.0.0.0:1 can be reached")
        sentence = refused(tcp="0.0.0.0:1", tls_client_ca="ca.pem", tls_user="none")
        assert sentence.startswith("tcp (GATEWAY_TCP): 0.0.0.0:1 can be reached from other machines, so users_file")
        assert "jwt_keys, cookie_keys, authenticator, or tls_client_ca with a tls_user" in sentence

    def test_origins(self) -> None:
        sentence = refused(cookie_keys="secrets.txt", allowed_origins=["https://a", "*"])
        assert sentence.startswith("settings do not fit together: cookie_keys needs a list of origins")
        wanted = ["*", "https://example.org", "http://[::1]:8000", "capacitor://localhost"]
        assert load(allowed_origins=wanted).allowed_origins == wanted
        assert load(allowed_origins="HTTPS://Example.org:443").allowed_origins == ["https://example.org"]


def test_paths_of_the_file_begin_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    monkeypatch.setenv("GATEWAY_CONFIG", "etc/gateway.toml")
    for written, found in (("users.txt", "etc/users.txt"), ("../users.txt", "etc/../users.txt"), ("/u", "/u")):
        Path("etc/gateway.toml").write_text(f'users_file = "{written}"')
        assert load().users_file == Path(found)
    Path("etc/gateway.toml").write_text('edge_ca = "ca.pem"')
    assert load().edge_ca == Path("etc/ca.pem")
    monkeypatch.setenv("GATEWAY_USERS_FILE", "users.txt")
    assert load().users_file == Path("users.txt")
    assert load(users_file="x").users_file == Path("x")
    for text in ('["unix:a.sock", "unix:/b.sock", "127.0.0.1:1"]', '"unix:a.sock, unix:/b.sock,127.0.0.1:1"'):
        Path("etc/gateway.toml").write_text(f"tcp = {text}")
        assert load().tcp == ["unix:etc/a.sock", "unix:/b.sock", "127.0.0.1:1"]
    monkeypatch.setenv("GATEWAY_TCP", "unix:a.sock")
    assert load().tcp == ["unix:a.sock"]
    monkeypatch.delenv("GATEWAY_TCP")
    for text, reason in (('["unix:"]', "is wrong: 'unix:' needs a path"), ("[1]", "must be an address")):
        Path("etc/gateway.toml").write_text(f"\ntcp = {text}")
        assert refused().startswith(f"etc/gateway.toml line 2: tcp {reason}")


COUNTED = {
    "bytes": ("Bytes ", "Average bytes "),
    "s": ("Seconds ",),
    "ms": ("Milliseconds ", "Shortest interval in milliseconds "),
}


def test_sizes_and_durations_have_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, field in Settings.model_fields.items():
        quantity = quantity_of(field)
        told = [unit for unit, starts in COUNTED.items() if reference.descriptions()[name].startswith(starts)]
        assert told == ([quantity.unit] if quantity else []), name
        if quantity is None:
            continue
        number, other = {"bytes": (1024, "KiB"), "s": (0.001, "ms"), "ms": (1000, "s")}[quantity.unit]
        (tmp_path / "gateway.toml").write_text(f'{name} = "{field.default / number:.20g} {other}"')
        assert getattr(load(), name) == field.default
        with monkeypatch.context() as patch:
            patch.setenv(f"GATEWAY_{name.upper()}", f"{field.default}{quantity.unit.removesuffix('ytes')}")
            assert getattr(load(), name) == field.default


class TestReference:
    def test_every_setting_has_a_reason(self) -> None:
        assert reference.descriptions().keys() == Settings.model_fields.keys()
        for name, text in reference.descriptions().items():
            assert text.endswith("."), name
            assert f"\n* `{name}`" in page() or f"\n* `[[{name}]]`" in page()

    def test_in_force_with_sources_and_without_secrets(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GATEWAY_ADMIN_TOKEN", "sesame")
        table = 'match = "/queue/a"\nmax_messages = 1\nwhen_full = "drop-oldest"'
        (tmp_path / "gateway.toml").write_text(
            f"max_headers = 11\n[[policy]]\n{table}\n[[policy]]\nmatch = ['/topic/b']"
        )
        told = list(reference.in_force(load()))
        lines = {line.split(" = ")[0]: line for line in told}
        assert lines["max_headers"].endswith("# file")
        assert lines["max_body"].endswith("# default")
        assert lines["admin_token"].startswith('admin_token = "(hidden)"')
        assert lines["admin_token"].endswith("# GATEWAY_ADMIN_TOKEN")
        assert lines["# users_file"].startswith("# users_file = null")
        assert (told[-8] == "" != told[-9], told[-7].split()) == (True, ["[[policy]]", "#", "file"])
        assert told[-6:-3] == table.splitlines()
        assert told[-1] == 'match = "/topic/b"'

    def test_what_is_in_force_can_be_read_back(self, tmp_path: Path) -> None:
        policies = [
            {"match": "/queue/\x7f.*", "dead_letter": "x", "max_bytes": 10_000, "when_full": "dead-letter"},
            {"match": ["/topic/#", "/user/a.#"], "slow_consumer": "conflate", "conflate_by": "ünit", "backoff": 1e-7},
            {"match": "/queue/**", "auto_delete": True, "on_nack": "drop", "max_attempts": 1_000_000},
        ]
        before = load(max_headers=17, tcp=["[::1]:0"], policy=policies)
        (tmp_path / "gateway.toml").write_text("\n".join(reference.in_force(before)))
        assert load().model_dump() == before.model_dump()


def test_each_quota_reaches_the_broker() -> None:
    for quota in dataclasses.fields(Quotas):
        default = getattr(Quotas(), quota.name)
        value = not default if isinstance(default, bool) else default + 1
        assert quotas_of(load(**{quota.name: value})) == dataclasses.replace(Quotas(), **{quota.name: value})
