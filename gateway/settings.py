"""The settings: one class, from which the reference page, the CLI check and the runtime all read.

Sources, strongest first: environment variables `GATEWAY_<NAME>`, then the file `gateway.toml` in the working
directory (or the file that `GATEWAY_CONFIG` names), then the defaults below.  Each field carries its unit and its
reason; `docs/settings.md` is generated from them (`make docs`).

A wrong value ends the start with one sentence (`SettingsError`), never with a traceback.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from gateway import policies
from gateway.address import Address as Address  # whoever reads settings needs it, too

KIB = 1024
MIB = 1024 * KIB

Addresses = Annotated[list[str], NoDecode]

_KUBERNETES = re.compile(r"GATEWAY_(SERVICE_HOST|SERVICE_PORT.*|PORT.*)")
"""Variables that Kubernetes sets by itself in every pod beside a service named `gateway`: none of ours."""


class SettingsError(ValueError):
    """A setting is wrong; `str()` is one sentence that names it and says what would be right."""


class Settings(BaseSettings):
    """All settings with unit, default and reason."""

    model_config = SettingsConfigDict(env_prefix="GATEWAY_", extra="forbid", frozen=True)

    tcp: Addresses = Field(
        ["127.0.0.1:61613"],
        description="Addresses of the STOMP over TCP listener: host:port, [v6]:port or unix:/path, comma-separated. "
        "Loopback by default, so that nothing is exposed by accident; 61613 is the port the field uses.",
    )
    websocket: Addresses = Field(
        ["127.0.0.1:15674"],
        description="Addresses of the STOMP over WebSocket listener. 15674 is the port RabbitMQ's users dial.",
    )
    websocket_path: str = Field("/ws", description="Path of the WebSocket endpoint, as RabbitMQ has it.")
    http: Addresses = Field(
        ["127.0.0.1:8000"],
        description="Addresses of health, metrics, admin API and demo page under `gateway serve`. Under hypercorn "
        "its own `--bind` decides and this is not read.",
    )
    allowed_origins: Addresses = Field(
        [],
        description="Origins of web pages (scheme://host[:port], comma-separated, or *) that may open a WebSocket "
        "besides those served from the gateway's own host name. Empty: same host only.",
    )
    users_file: Path | None = Field(
        None,
        description="File of users written by `gateway passwd`. Needed as soon as a listener is not on loopback.",
    )
    admin_token: str = Field(
        "",
        repr=False,
        description="Bearer token of the admin API and metrics. Empty: they answer to loopback peers only.",
    )
    server_name: str = Field(
        "stomp-gateway",
        pattern=r"^[!-.0-~]+$",
        description="Name in the `server` header of CONNECTED.",
    )

    connect_timeout: float = Field(
        10.0,
        gt=0,
        le=600,
        description="Seconds a peer has from its connection to a complete CONNECT frame and login (RabbitMQ: 10); "
        "over WebSocket the upgrade has as much before.",
    )
    heartbeat_send: int = Field(
        250,
        ge=0,
        le=3_600_000,
        description="Shortest interval in milliseconds at which the server can send heart-beats (0: never). Small, "
        "so that the interval each client asks for is the one it gets.",
    )
    heartbeat_receive: int = Field(
        250,
        ge=0,
        le=3_600_000,
        description="Shortest interval in milliseconds at which the server wants heart-beats of a client (0: none). "
        "Small, so that the interval each client offers is the one agreed.",
    )
    heartbeat_margin: float = Field(
        2.0,
        ge=1.2,
        le=100,
        description="A client is taken for dead after this many of its intervals without an octet. Two, because "
        "timers and networks are late.",
    )
    websocket_ping: float = Field(
        25.0,
        ge=0,
        le=3600,
        description="Seconds between WebSocket pings to each peer (0: none). Below the 60 s after which nginx cuts "
        "an idle connection; browsers answer without JavaScript.",
    )
    close_linger: float = Field(
        1.0,
        ge=0,
        le=30,
        description="Seconds a closed connection stays readable, so that the peer can read the ERROR (STOMP 1.2, "
        "Connection Lingering).",
    )
    drain_timeout: float = Field(
        10.0,
        gt=0,
        le=600,
        description="Seconds that a shutdown may take before connections are cut. hypercorn's own command "
        "waits 60 s (its shutdown_timeout) and no longer.",
    )
    drain_retry: int = Field(
        2_000,
        ge=0,
        le=3_600_000,
        description="Milliseconds after which clients are told to come back when the gateway shuts down "
        "(`retry-after` on the ERROR).",
    )

    max_headers: int = Field(
        1_000,
        ge=10,
        le=100_000,
        description="Header lines per frame (RabbitMQ: 100, Apollo: 1,000).",
    )
    max_header_line: int = Field(
        64 * KIB,
        ge=256,
        le=16 * MIB,
        description="Octets of one header line (RabbitMQ: 100 KiB, Apollo: 10 KiB).",
    )
    max_body: int = Field(
        16 * MIB,
        ge=KIB,
        le=1024 * MIB,
        description="Octets of one body. A body is held in memory whole.",
    )
    max_connect_header_line: int = Field(
        8 * KIB,
        ge=256,
        le=MIB,
        description="Octets of one header line before login; long enough for a token, short enough for a stranger.",
    )
    max_connect_headers: int = Field(64, ge=5, le=10_000, description="Header lines of a frame before login.")
    max_subscriptions: int = Field(
        20_000,
        ge=1,
        le=10_000_000,
        description="Subscriptions per session; each costs about 1 KiB.",
    )
    max_transactions: int = Field(64, ge=1, le=100_000, description="Open transactions per session (RabbitMQ: 16).")
    max_transaction_octets: int = Field(
        16 * MIB,
        ge=KIB,
        le=1024 * MIB,
        description="Octets held by all open transactions of one session until COMMIT.",
    )
    max_unacknowledged: int = Field(
        1_000,
        ge=1,
        le=10_000_000,
        description="Messages sent to one subscription of a queue and not yet acknowledged, before further ones wait, "
        "where the client says no `prefetch-count` (ActiveMQ: 1,000).",
    )
    max_unacknowledged_octets: int = Field(
        64 * MIB,
        ge=KIB,
        le=4096 * MIB,
        description="Octets of such messages, before further ones wait; a larger message goes when it is the only one.",
    )
    max_outbound: int = Field(
        32 * MIB,
        ge=64 * KIB,
        le=4096 * MIB,
        description="Octets waiting to be written to one client, at least twice max_body. At 3/4 of it those who "
        "publish to it are held back; above it a client that was waited for in vain is closed.",
    )
    slow_consumer_timeout: float = Field(
        2.0,
        gt=0,
        le=600,
        description="Seconds for which a client that takes no octet may hold back those who publish to it; then it "
        "no longer does, and is closed when its buffer is full.",
    )
    memory_limit: int = Field(
        1024 * MIB,
        ge=MIB,
        le=1024 * 1024 * MIB,
        description="Octets of all messages kept (waiting, unacknowledged, in transactions). From 3/4 on publishers "
        "are held back; nothing is dropped.",
    )
    max_destinations: int = Field(
        1_000_000,
        ge=1,
        le=100_000_000,
        description="Queues that hold messages or have subscribers, at the same time.",
    )
    max_delayed: int = Field(
        1_000_000,
        ge=0,
        le=100_000_000,
        description="Messages that wait for their time, at once (0: none, every delay is refused).",
    )
    max_retained: int = Field(
        100_000,
        ge=0,
        le=100_000_000,
        description="Retained messages, one for each topic that has one (0: none, `retain:set` is refused).",
    )
    dedup_window: float = Field(
        600.0,
        ge=0,
        le=604_800,
        description="Seconds for which a `dedup-id` is remembered (0: not at all, so that no message is taken for a "
        "duplicate). Longer than any client goes on trying again.",
    )
    max_dedup_ids: int = Field(
        100_000,
        ge=1,
        le=100_000_000,
        description="Such ids that are remembered; the oldest go first. Each costs about 200 octets.",
    )

    handlers: str = Field(
        "",
        description="Python functions that handle what clients send to `/app/`, as `module:attribute`, looked for last "
        "in the working directory. Empty: there are none. See [handlers](handlers.md).",
    )

    log_format: str = Field(
        "auto",
        pattern="^(auto|json|human)$",
        description="`json`, `human`, or `auto`: human on a terminal, else JSON.",
    )
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="Least level that is logged.")

    # The last one: behind a [[policy]] header no other setting can follow in the file.
    policy: Annotated[tuple[policies.Table, ...], NoDecode] = Field(
        (),
        description="Limits, redelivery, dead letters and the like for destinations by pattern, as `[[policy]]` tables "
        "at the end of the file; no variable. See [policies](policies.md).",
    )

    @field_validator("tcp", "websocket", "http", "allowed_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator("tcp", "websocket", "http")
    @classmethod
    def _are_addresses(cls, value: list[str]) -> list[str]:
        for text in value:
            Address.parse(text)
        return value

    @field_validator("websocket_path")
    @classmethod
    def _is_path(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError("a path starts with /")
        if set(value) & set("?# "):
            raise ValueError("a path has no query, no fragment and no space")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _are_origins(cls, value: list[str]) -> list[str]:
        for text in value:
            if text != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#\s]+", text):
                raise ValueError(f"{text!r} is not an origin; write scheme://host or scheme://host:port, or *")
        return value

    @field_validator("users_file", mode="before")
    @classmethod
    def _is_set(cls, value: object) -> object:
        """An empty variable is how a shell unsets one; it would name the working directory."""
        return value or None

    @field_validator("admin_token")
    @classmethod
    def _fits_a_header(cls, value: str) -> str:
        if not re.fullmatch(r"[!-~]*", value):
            raise ValueError("a token is printable ASCII without spaces, or no client could send it")
        return value

    @field_validator("handlers")
    @classmethod
    def _names_an_attribute(cls, value: str) -> str:
        if value and not re.fullmatch(r"\w+(\.\w+)*:\w+", value):
            raise ValueError(f"{value!r} is no attribute of a module; write module:attribute, like prices.app:handlers")
        return value

    @field_validator("policy", mode="before")
    @classmethod
    def _are_policies(cls, value: object) -> tuple[policies.Table, ...]:
        return policies.read_tables(value, cls.model_fields.keys())

    @model_validator(mode="after")
    def _hold_together(self) -> Settings:
        if self.max_connect_header_line > self.max_header_line:
            raise ValueError("max_connect_header_line must not be larger than max_header_line")
        if self.max_body > self.memory_limit // 4:
            raise ValueError(
                "max_body must be at most a quarter of memory_limit, or one message could stop all publishers"
            )
        if not self.http or not (self.tcp or self.websocket):
            raise ValueError("http, and one of tcp and websocket, must name an address")
        if self.max_outbound < 2 * self.max_body:
            raise ValueError(
                "max_outbound must be at least twice max_body, or one large message would make a slow consumer of "
                "whoever gets it"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the TOML file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, config_file())

    @property
    def exposed(self) -> list[Address]:
        """The STOMP addresses that other machines can reach."""
        found = [Address.parse(text) for text in [*self.tcp, *self.websocket]]
        return [address for address in found if not address.is_loopback]


def config_file() -> Path:
    """The settings file in use (it need not exist unless `GATEWAY_CONFIG` names it)."""
    return Path(os.environ.get("GATEWAY_CONFIG") or "gateway.toml")


def load(**overrides: Any) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: a value is wrong, a name is unknown, or the file cannot be read.
    """
    path = config_file()
    if os.environ.get("GATEWAY_CONFIG") and not path.is_file():
        raise SettingsError(f"GATEWAY_CONFIG names {path}, and there is no such file")
    _refuse_unknown_variables()
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        raise SettingsError(_sentence(error, overrides)) from None
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None
    if settings.exposed and settings.users_file is None:
        where = ", ".join(map(str, settings.exposed))
        raise SettingsError(
            f"{where} can be reached from other machines, so users_file must be set (GATEWAY_USERS_FILE; "
            "write it with `gateway passwd FILE USER`), or listen on loopback only"
        )
    return settings


def _refuse_unknown_variables() -> None:
    """A misspelt variable would otherwise be silently without effect."""
    if "GATEWAY_POLICY" in os.environ:
        raise SettingsError(f"GATEWAY_POLICY is no variable; write policies as [[policy]] tables into {config_file()}")
    known = {f"GATEWAY_{name.upper()}" for name in Settings.model_fields} | {"GATEWAY_CONFIG"}
    for name in sorted(os.environ):
        if name.startswith("GATEWAY_") and name not in known and not _KUBERNETES.fullmatch(name):
            raise SettingsError(f"there is no setting {name}; `gateway check-config --list` names them all")


def _sentence(error: ValidationError, overrides: Mapping[str, object]) -> str:
    """The first fault, with the setting's name, the value found and what would be right."""
    first = error.errors()[0]
    fault = first.get("ctx", {}).get("error")
    if isinstance(fault, policies.PolicyError):
        return policies.sentence(fault, None if "policy" in overrides else config_file())
    reason = first["msg"].removeprefix("Value error, ")
    reason = reason[:1].lower() + reason[1:]
    if not first["loc"]:
        return f"settings do not fit together: {reason}"
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {name!r} (in {config_file()}); `gateway check-config --list` names them all"
    # Our own sentences show the value where that helps; pydantic's never do.
    shown = "" if name == "admin_token" or first["type"] == "value_error" else f", not {first['input']!r}"
    return f"{name} (GATEWAY_{name.upper()}) is wrong: {reason}{shown}"
