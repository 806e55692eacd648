"""The settings: one class, from which the reference page, the CLI check and the runtime all read.

Sources, strongest first: environment variables `GATEWAY_<NAME>`, then the file `gateway.toml` in the working
directory (or the file that `GATEWAY_CONFIG` names), then the defaults below.  `load` reads them all; the bare class
reads no file.  Each field carries its unit and its reason; `docs/settings.md` is generated from them (`make docs`).

A wrong value ends the start with one sentence (`SettingsError`, made in `errors.py`), never with a traceback.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from gateway.config import errors, policies, rules, toml_file

# Whoever reads settings needs these, too.
from gateway.config.address import Address as Address
from gateway.config.errors import unusable as unusable
from gateway.config.errors import wrong as wrong
from gateway.config.journal import Journalling
from gateway.config.kinds import Addresses, Attribute, Octets, Origins, Place, Store, Token, UrlPath
from gateway.config.observe import Observe
from gateway.config.security import KIB, MIB, Security
from gateway.config.toml_file import SettingsError as SettingsError
from gateway.config.toml_file import config_file as config_file

_STOMP = ("tcp", "websocket", "tcp_tls", "websocket_tls")
LISTENERS = (*_STOMP, "http")
PLACES = (
    "users_file",
    "journal",
    "archive",
    "tables",
    "tls_certificate",
    "tls_key",
    "tls_client_ca",
    "jwt_keys",
    "cookie_keys",
)


class Settings(Observe, Security, Journalling):
    """All settings with unit, default and reason."""

    model_config = SettingsConfigDict(env_prefix="GATEWAY_", extra="forbid", frozen=True)

    tcp: Addresses = Field(
        ["127.0.0.1:61613"],
        description="Addresses of the STOMP over TCP listener: host:port, [v6]:port, unix:/path, or systemd:NAME (a "
        "socket of systemd that has this FileDescriptorName), comma-separated. Loopback by default, so that nothing is "
        "exposed by accident; 61613 is the port the field uses.",
    )
    websocket: Addresses = Field(
        ["127.0.0.1:15674"],
        description="Addresses of the STOMP over WebSocket listener. 15674 is the port RabbitMQ's users dial.",
    )
    websocket_path: UrlPath = Field("/ws", description="Path of the WebSocket endpoint, as RabbitMQ has it.")
    http: Addresses = Field(
        ["127.0.0.1:8000"],
        description="Addresses of health, metrics, admin API and demo page under `gateway serve` and `make run`. Under "
        "hypercorn its own `--bind` decides; `gateway check-config --hypercorn` prints it.",
    )
    allowed_origins: Origins = Field(
        [],
        description="Origins of web pages (scheme://host[:port], comma-separated) that may open a WebSocket besides "
        "those served from the gateway's own host name. `https://*.example.org` names all hosts below example.org, `*` "
        "every page. Empty: same host only.",
    )
    users_file: Place = Field(
        None,
        description="File of users written by `gateway passwd`. Needed as soon as a listener is not on loopback. "
        "A relative path in gateway.toml counts from the folder of that file, one in the variable from the working "
        "directory.",
    )
    store: Store = Field(
        "memory",
        description="Where durable messages are kept: `memory`, which ends with the process, or `sqlite:PATH`. A "
        "relative path counts as that of users_file does.",
    )
    admin_token: Token = Field(
        "",
        repr=False,
        description="Bearer token of the admin API and metrics. Empty: they answer to loopback peers only.",
    )
    server_name: str = Field(
        "stomp-gateway",
        pattern=r"^[!-.0-~]+$",
        description="Name in the `server` header of CONNECTED.",
    )
    server_version: bool = Field(
        True,
        description="Whether the gateway's version stands behind that name; false where strangers need not know it. No "
        "ERROR and no answer over HTTP has it, but those of the admin API.",
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
        "(`retry-after` on the ERROR; over HTTP `Retry-After`, in seconds).",
    )

    max_headers: int = Field(
        1_000,
        ge=10,
        le=100_000,
        description="Header lines per frame (RabbitMQ: 100, Apollo: 1,000).",
    )
    max_header_line: Octets = Field(
        64 * KIB,
        ge=256,
        le=16 * MIB,
        description="Octets of one header line (RabbitMQ: 100 KiB, Apollo: 10 KiB).",
    )
    max_body: Octets = Field(
        16 * MIB,
        ge=KIB,
        le=1024 * MIB,
        description="Octets of one body. A body is held in memory whole.",
    )
    max_connect_header_line: Octets = Field(
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
    max_transaction_octets: Octets = Field(
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
    max_unacknowledged_octets: Octets = Field(
        64 * MIB,
        ge=KIB,
        le=4096 * MIB,
        description="Octets of such messages, before further ones wait; a larger message goes when it is the only one.",
    )
    max_outbound: Octets = Field(
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
    memory_limit: Octets = Field(
        1024 * MIB,
        ge=MIB,
        le=1024 * 1024 * MIB,
        description="Octets of all messages kept (waiting, unacknowledged, in transactions, half sent). From 3/4 on "
        "publishers are held back; at the limit what would be kept is refused, and the client that costs most is "
        "closed. Nothing that was kept is dropped. It is lowered at the start to what `memory_mark` leaves.",
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
    max_durable_subscriptions: int = Field(
        100_000,
        ge=0,
        le=10_000_000,
        description="Durable and shared subscriptions of topics, also those that nobody consumes at the moment. Each "
        "costs about 4 KiB, and what waits for it; a policy's `idle_timeout` ends those that nobody came back to.",
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
        description="Such ids that are remembered; then the oldest go, of the destinations that have most. Each costs "
        "about 200 octets.",
    )

    client_queue_arguments: bool = Field(
        True,
        description="Whether clients may narrow the policy of a queue that they create by headers like `x-max-length`. "
        "It holds for all who use the queue later; false: the frame gets an ERROR instead.",
    )

    lenient: bool = Field(
        False,
        description="Whether clients of STOMP 1.1 and 1.2 may name subscriptions and messages as RabbitMQ and ActiveMQ "
        "let them: SUBSCRIBE without `id`, whose id is then the destination; ACK and NACK by the message-id, in 1.2 in "
        "`id` or `message-id`, in 1.1 without `subscription` or with the one of another subscription. False: such a "
        "frame gets an ERROR, as the specification has it.",
    )

    handlers: Attribute = Field(
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

    @field_validator("policy", mode="before")
    @classmethod
    def _are_policies(cls, value: object) -> tuple[policies.Table, ...]:
        return policies.read_tables(value, cls.model_fields.keys())

    @model_validator(mode="after")
    def _hold_together(self) -> Settings:
        if self.max_connect_header_line > self.max_header_line:
            raise errors.Misfit(
                "max_connect_header_line must not be larger than max_header_line",
                max_connect_header_line=self.max_connect_header_line,
                max_header_line=self.max_header_line,
            )
        if self.max_body > self.memory_limit // 4:
            raise errors.Misfit(
                "max_body must be at most a quarter of memory_limit, or one message could stop all publishers",
                max_body=self.max_body,
                memory_limit=self.memory_limit,
            )
        if not self.http or not (self.tcp or self.websocket or self.tcp_tls or self.websocket_tls):
            raise errors.Misfit(
                "http, and one of tcp, websocket, tcp_tls and websocket_tls, must name an address",
                **{name: [] for name in ("http", "tcp", "websocket") if not getattr(self, name)},
            )
        if self.max_outbound < 2 * self.max_body:
            raise errors.Misfit(
                "max_outbound must be at least twice max_body, or one large message would make a slow consumer of "
                "whoever gets it",
                max_outbound=self.max_outbound,
                max_body=self.max_body,
            )
        if self.cookie_keys is not None and "*" in self.allowed_origins:
            raise errors.Misfit(
                "cookie_keys needs a list of origins, or any page could use the cookie of whoever looks at it",
                allowed_origins=self.allowed_origins,
            )
        if self.admin_groups and self.anonymous:
            raise errors.Misfit(
                "admin_groups needs an authenticator that knows groups, like users_file, or nobody can log in",
                admin_groups=self.admin_groups,
            )
        return self

    @property
    def anonymous(self) -> bool:
        """Whether everybody is let in, for no authenticator is set."""
        found = (self.users_file, self.jwt_keys, self.cookie_keys, self.authenticator, self.certificates_are_users)
        return not any(found)

    @property
    def exposed(self) -> list[Address]:
        """The STOMP addresses that other machines can reach."""
        return [address for name in _STOMP for address in _exposed(getattr(self, name))]


def _exposed(texts: list[str]) -> list[Address]:
    return [address for address in map(Address.parse, texts) if not address.is_loopback]


def load(**arguments: Any) -> Settings:
    """Read the settings.

    Args:
        arguments: settings that are stronger than variables and file.

    Raises:
        SettingsError: a value is wrong, a name is unknown, or the file cannot be read.
    """
    file = toml_file.read()
    sources = errors.Sources(file, arguments)
    errors.refuse_unknown(Settings.model_fields, file)
    values = file.rooted(PLACES, LISTENERS)
    try:
        settings = Settings(**{name: values[name] for name in values if sources.is_in_file(name)}, **arguments)
    except ValidationError as error:
        raise SettingsError(errors.sentence(error, sources)) from None
    if sources.is_in_file("rule"):
        settings = settings.model_copy(update={"rule": rules.placed(settings.rule, file)})
    if settings.exposed and settings.anonymous:
        where = sources.place(next(name for name in _STOMP if _exposed(getattr(settings, name))))
        raise SettingsError(
            f"{where}: {', '.join(map(str, settings.exposed))} can be reached from other machines, so users_file must "
            "be set (GATEWAY_USERS_FILE; write it with `gateway passwd FILE USER`), or another authenticator: "
            "jwt_keys, cookie_keys, authenticator, or tls_client_ca with a tls_user; or listen on loopback only"
        )
    return settings
