"""Settings: their sources, and the sentences on wrong ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from docs.generate.settings import page
from gateway.broker import Quotas
from gateway.config import reference
from gateway.config.settings import Settings, SettingsError, load
from gateway.runtime.gateway import quotas_of

ROOT = Path(__file__).parent.parent.parent


class TestSources:
    def test_argument_beats_variable_beats_file_beats_default(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert load().exposed == []
        (tmp_path / "gateway.toml").write_text("max_body = 2048\nmax_headers = 20\n")
        monkeypatch.setenv("GATEWAY_MAX_BODY", "4096")
        monkeypatch.setenv("GATEWAY_MAX_HEADERS", "30")
        monkeypatch.setenv("GATEWAY_WEBSOCKET", "")  # closes the listener
        monkeypatch.setenv("GATEWAY_USERS_FILE", "")
        for name in ("SERVICE_HOST", "SERVICE_PORT_STOMP", "PORT", "PORT_61613_TCP_ADDR"):  # of Kubernetes, not ours
            monkeypatch.setenv(f"GATEWAY_{name}", "tcp://192.0.2.1:1")
        settings = load(max_body=8192)
        assert (settings.max_body, settings.max_headers) == (8192, 30)
        assert (settings.tcp, settings.websocket, settings.users_file) == (["127.0.0.1:61613"], [], None)

    def test_lists(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "gateway.toml").write_text('websocket = ["127.0.0.1:1", "[::1]:1"]\n')
        monkeypatch.setenv("GATEWAY_TCP", " 127.0.0.1:2 , unix:/x ,")
        settings = load()
        assert settings.websocket == ["127.0.0.1:1", "[::1]:1"]
        assert settings.tcp == ["127.0.0.1:2", "unix:/x"]


def refused(**arguments: object) -> str:
    with pytest.raises(SettingsError) as refusal:
        load(**arguments)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


# Setting, value, and what is wrong with it.
WRONG = [
    ("TCP", "foo", "'foo' is not an address; write host:port, [::1]:port, unix:/path or"),
    ("HTTP", "127.0.0.1:99999", "'127.0.0.1:99999' is not an address"),
    ("WEBSOCKET", "unix:", "'unix:' needs a path"),
    ("WEBSOCKET_PATH", "ws", "a path starts with /"),
    ("WEBSOCKET_PATH", "/ws?x", "a path has no query"),
    ("ALLOWED_ORIGINS", "example.org", "'example.org' is not"),
    ("ALLOWED_ORIGINS", "https://a/b", "'https://a/b' is not"),
    ("ALLOWED_ORIGINS", "https://a*.b", "'https://a*.b' matches"),
    ("SERVER_NAME", "my server", "string should match pattern"),
    ("CONNECT_TIMEOUT", "0", "input should be greater than 0"),
    ("CONNECT_TIMEOUT", "nan", ""),
    ("CONNECT_TIMEOUT", "inf", ""),
    ("MAX_BODY", "-1", "input should be greater than or equal to 1024, not '-1'"),
    ("MAX_BODY", "1 Mi", "'1 Mi' is no number of bytes; write one like 1073741824"),
    ("MEMORY_LIMIT", "", "'' is no number of bytes; write one like"),
    ("MAX_HEADERS", "1kB", "input should be a valid integer, unable to"),
    ("MAX_UNACKNOWLEDGED_BYTES", "0", ""),
    ("MAX_DELAYED", "-1", "input should be greater than or equal to 0"),
    ("MAX_RETAINED", "-1", "input should be greater than or equal to 0"),
    ("DEDUP_WINDOW", "604801", "input should be less than or equal to"),
    ("MAX_DEDUP_IDS", "0", "input should be greater than or equal to 1"),
    ("HEARTBEAT_MARGIN", "1", "input should be greater"),
    ("TLS_MIN_VERSION", "1.1", "string should match pattern"),
    ("LOG_FORMAT", "xml", "string should match pattern"),
    ("CLIENT_QUEUE_ARGUMENTS", "maybe", "input should"),
    ("METRICS_DESTINATIONS", "orders", "'orders' is no queue and no topic; write"),
    ("METRICS_DESTINATIONS", "/queue/", "'/queue/' is no pattern"),
    ("TRACE_ENDPOINT", "localhost:4318", "'localhost:4318' is no address of a collector; write a full one"),
    ("TRACE_ENDPOINT", "http://h:4318", "'http://h:4318' is no address of a collector"),
    ("TRACE_ENDPOINT", "http://a:sesame@h/v1", "'http://(hidden)@h/v1' has a password in it"),
    ("TRACE_RATIO", "1.1", "input should be less than or equal to 1"),
    ("TRACE_RATIO", "-0.1", "input should be greater than or equal to 0"),
]
# The same with the whole sentence.
OTHERS = [
    ("MAX_BODY", "1073741824", "settings do not fit together: max_body must be at most a quarter of memory_limit"),
    ("MAX_HEADER_LINE", "300", "settings do not fit together: max_connect_header_line must not be larger than"),
    ("HTTP", "", "settings do not fit together: http, and one of tcp, websocket"),
    ("MAX_OUTBOUND", "65536", "settings do not fit together: max_outbound must be at least twice max_body"),
    ("CONFIG", "/nowhere.toml", "GATEWAY_CONFIG names /nowhere.toml, but there is no such file"),
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
        assert refused().startswith(f"{name.lower()} (GATEWAY_{name}) is wrong: {sentence}")

    @pytest.mark.parametrize(("name", "value", "sentence"), OTHERS, ids=[f"{row[0]}={row[1]}" for row in OTHERS])
    def test_other_sentences(self, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str) -> None:
        monkeypatch.setenv(f"GATEWAY_{name}", value)
        assert refused().startswith(sentence)

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("tcp = ", "gateway.toml cannot be read: Invalid value"),
            ("\n\ntcp = 61613", "gateway.toml line 3: tcp is wrong: input should be a valid list, not 61613"),
            ('admin_groups = ["ops", " "]', "gateway.toml line 1: admin_groups is wrong: ' ' is no name"),
            ("tcp = '127.0.0.1'", "gateway.toml line 1: tcp is wrong: '127.0.0.1' is not an address; write"),
            ("\n[tcp]\nport = 1", "gateway.toml line 2: tcp is wrong: input should be a valid list"),
            ("max_body = true", "gateway.toml line 1: max_body is wrong: input should be greater"),
            ("max_body = '1 G'", "gateway.toml line 1: max_body is wrong: '1 G' is no number of bytes; write one"),
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
        assert refused().endswith(
            "; max_body is 2000000 (GATEWAY_MAX_BODY), memory_limit is 4000000 (gateway.toml line 1)"
        )
        assert refused(max_body=10**9).endswith(
            "; max_body is 1000000000 (argument), memory_limit is 4000000 (gateway.toml line 1)"
        )
        (tmp_path / "gateway.toml").write_text("websocket = []\n")
        monkeypatch.delenv("GATEWAY_MAX_BODY")
        monkeypatch.setenv("GATEWAY_TCP", "")
        assert refused().endswith(
            "must name an address; tcp is [] (GATEWAY_TCP), websocket is [] (gateway.toml line 1)"
        )
        monkeypatch.delenv("GATEWAY_TCP")
        monkeypatch.setenv("GATEWAY_MAX_HEADER_LINE", "300")
        assert refused().endswith(
            "; max_connect_header_line is 8192 (default), max_header_line is 300 (GATEWAY_MAX_HEADER_LINE)"
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

    @pytest.mark.parametrize(
        "authenticator",
        [
            {"users_file": "users.txt"},
            {"jwt_keys": "keys.pem"},
            {"cookie_keys": "secrets.txt"},
            {"authenticator": "mine:ask"},
            {"tls_client_ca": "ca.pem", "tls_client_certificates": "required"},
        ],
    )
    def test_exposed_listeners_with_any_authenticator(self, authenticator: dict[str, str]) -> None:
        settings = load(tcp="0.0.0.0:0", **authenticator)
        assert [str(address) for address in settings.exposed] == ["0.0.0.0:0"]
        assert not settings.anonymous

    def test_certificates_that_name_no_user_are_no_authenticator(self) -> None:
        assert refused(tcp_tls="0.0.0.0:1").startswith("tcp_tls (GATEWAY_TCP_TLS): 0.0.0.0:1 can be reached")
        sentence = refused(tcp="0.0.0.0:1", tls_client_ca="ca.pem", tls_user="none")
        assert sentence.startswith("tcp (GATEWAY_TCP): 0.0.0.0:1 can be reached from other machines, so users_file")
        assert "jwt_keys, cookie_keys, authenticator, or tls_client_ca with a tls_user" in sentence

    def test_cookies_of_any_page(self) -> None:
        sentence = refused(cookie_keys="secrets.txt", allowed_origins=["https://a", "*"])
        assert sentence.startswith("settings do not fit together: cookie_keys needs a list of origins")

    def test_origins(self) -> None:
        wanted = ["*", "https://example.org", "http://[::1]:8000", "capacitor://localhost"]
        assert load(allowed_origins=wanted).allowed_origins == wanted
        assert load(allowed_origins="HTTPS://Example.org:443").allowed_origins == ["https://example.org"]


class TestPaths:
    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "etc").mkdir()
        monkeypatch.setenv("GATEWAY_CONFIG", "etc/gateway.toml")

    def write(self, text: str) -> None:
        Path("etc/gateway.toml").write_text(text)

    @pytest.mark.parametrize(
        ("written", "found"),
        [("users.txt", "etc/users.txt"), ("../users.txt", "etc/../users.txt"), ("/users.txt", "/users.txt")],
    )
    def test_users_file(self, monkeypatch: pytest.MonkeyPatch, written: str, found: str) -> None:
        self.write(f'users_file = "{written}"')
        assert load().users_file == Path(found)
        monkeypatch.setenv("GATEWAY_USERS_FILE", written)
        assert load().users_file == Path(written)
        assert load(users_file="x").users_file == Path("x")

    @pytest.mark.parametrize("name", ["tcp", "websocket", "http"])
    def test_unix_sockets(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        wanted = ["unix:etc/a.sock", "unix:/b.sock", "127.0.0.1:1"]
        for text in ('["unix:a.sock", "unix:/b.sock", "127.0.0.1:1"]', '"unix:a.sock, unix:/b.sock,127.0.0.1:1"'):
            self.write(f"{name} = {text}")
            assert getattr(load(), name) == wanted
        monkeypatch.setenv(f"GATEWAY_{name.upper()}", "unix:a.sock")
        assert getattr(load(), name) == ["unix:a.sock"]

    @pytest.mark.parametrize(
        ("text", "reason"), [('["unix:"]', "'unix:' needs a path"), ("[1]", "input should be a valid")]
    )
    def test_no_address(self, text: str, reason: str) -> None:
        self.write(f"\ntcp = {text}")
        assert refused().startswith(f"etc/gateway.toml line 2: tcp is wrong: {reason}")


class TestSizes:
    NAMES = (
        "memory_mark",
        *("max_bytes_per_second", "max_bytes_per_second_per_user", "max_bytes_per_second_per_address"),
        *("max_body", "max_header_line", "max_connect_header_line", "max_transaction_bytes"),
        *("max_unacknowledged_bytes", "max_outbound", "memory_limit", "journal_queue"),
    )

    def test_these_are_all(self) -> None:
        starts = ("Bytes ", "Average bytes ")
        in_bytes = [name for name, text in reference.descriptions().items() if text.startswith(starts)]
        assert sorted(in_bytes) == sorted(self.NAMES)

    @pytest.mark.parametrize("name", NAMES)
    def test_with_a_unit(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
        default = Settings.model_fields[name].default
        (tmp_path / "gateway.toml").write_text(f'{name} = "{default // 1024} KiB"')
        assert getattr(load(), name) == default
        (tmp_path / "gateway.toml").write_text(f'{name} = "no size"')
        monkeypatch.setenv(f"GATEWAY_{name.upper()}", f"{default}B")
        assert getattr(load(), name) == default


class TestReference:
    def test_committed_page_is_up_to_date(self) -> None:
        assert (ROOT / "docs" / "settings.md").read_text() == page(), "run `make docs`"

    def test_every_setting_has_a_reason(self) -> None:
        assert reference.descriptions().keys() == Settings.model_fields.keys()
        for name, text in reference.descriptions().items():
            assert text.endswith("."), name
            assert f"| `{name}`<br>" in page()

    def test_in_force_with_sources_and_without_secrets(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "gateway.toml").write_text("max_headers = 11\n")
        monkeypatch.setenv("GATEWAY_ADMIN_TOKEN", "sesame")
        lines = {line.split(" = ")[0]: line for line in reference.in_force(load())}
        assert lines["max_headers"].endswith("# file")
        assert lines["max_body"].endswith("# default")
        assert lines["admin_token"].startswith('admin_token = "(hidden)"')
        assert lines["admin_token"].endswith("# GATEWAY_ADMIN_TOKEN")
        assert lines["# users_file"].startswith("# users_file = null")

    def test_policies_in_force(self, tmp_path: Path) -> None:
        lines = list(reference.in_force(load()))
        assert [line.partition("#")[0].strip() for line in lines[-2:]] == ["policy = []", "rule = []"]
        table = 'match = "/queue/a"\nmax_messages = 1\nwhen_full = "drop-oldest"'
        (tmp_path / "gateway.toml").write_text(f"[[policy]]\n{table}\n[[policy]]\nmatch = ['/topic/b', '/queue/c']\n")
        lines = list(reference.in_force(load()))
        assert lines[-8] == "" != lines[-9]
        assert lines[-7].split() == ["[[policy]]", "#", "file"]
        assert lines[-6:-3] == table.splitlines()
        assert lines[-2].split() == ["[[policy]]", "#", "file"]
        assert lines[-1] == 'match = ["/topic/b", "/queue/c"]'

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
