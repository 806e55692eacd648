"""Settings: one class, from which the reference page, `gateway check-config` and the gateway all read.

Sources, strongest first: environment variables `GATEWAY_<NAME>`, then the file `gateway.toml` in the working
directory (or the file that `GATEWAY_CONFIG` names), then the defaults below.  `load` reads them all; the bare class
reads neither.  The text below each field has its unit and its reason; `docs/settings.md` is
generated from them (`make docs`).

A wrong value ends the start with one sentence (`SettingsError`, made in `errors.py`), never with a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from gateway.config import errors, policies, rules, toml_file
from gateway.config.cluster import ClusterSettings
from gateway.config.edges import EdgeSettings

# The modules that read settings need these names, too.
from gateway.config.errors import unusable as unusable
from gateway.config.errors import wrong as wrong
from gateway.config.kinds import (
    KIB,
    MIB,
    Addresses,
    Attribute,
    Milliseconds,
    Origins,
    Place,
    Seconds,
    Size,
    Store,
    Token,
    UrlPath,
)
from gateway.config.sections import JournalSettings, ObserveSettings, SecuritySettings
from gateway.config.toml_file import SettingsError as SettingsError
from gateway.config.toml_file import config_file as config_file
from gateway.config.values import Address as Address

_STOMP = ("tcp", "websocket", "tcp_tls", "websocket_tls")
LISTENERS = (*_STOMP, "http")

MEMORY_ONLY = "messages are kept in memory only, and a restart loses them"


def keep_messages() -> str:
    """The remedy for `MEMORY_ONLY`: the line of the settings file."""
    return f'write store = "sqlite:store.db" into {config_file()}'


class Settings(ObserveSettings, SecuritySettings, JournalSettings, ClusterSettings, EdgeSettings):
    """All settings with unit, default and reason."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=False, arbitrary_types_allowed=True, validate_default=True
    )

    tcp: Addresses = Field(["127.0.0.1:61613"])
    """Addresses of STOMP over TCP: host:port, [v6]:port, unix:/path, or systemd:NAME (a socket with that
    FileDescriptorName). By default only this machine can connect."""

    websocket: Addresses = Field(["127.0.0.1:15674"])
    """Addresses of STOMP over WebSocket. 15674 is RabbitMQ's port."""

    websocket_path: UrlPath = "/ws"
    """Path of the WebSocket endpoint, as in RabbitMQ."""

    http: Addresses = Field(["127.0.0.1:8000"])
    """Addresses of health, metrics, admin API and demo page. Under hypercorn its own `--bind` decides; `gateway
    check-config --hypercorn` prints it."""

    allowed_origins: Origins = Field([])
    """Origins (scheme://host[:port]) of web pages that may open a WebSocket besides those of the gateway's own host:
    `https://*.example.org` for all hosts below it, `*` for every page."""

    users_file: Place = None
    """File of users, written by `gateway passwd`. Listeners beyond loopback need some authenticator."""

    store: Store = "memory"
    """Store of durable messages: `memory`, which is lost when the process ends, or `sqlite:PATH`."""

    admin_token: Token = Field("", repr=False)
    """Bearer token of the admin API and metrics. Empty: they answer only clients on loopback."""

    server_name: str = Field(
        "stomp-gateway", pattern=r"^[!-.0-~]+$", description="printable ASCII without spaces and slashes"
    )
    """Name in the header `server` of CONNECTED."""

    server_version: bool = True
    """Whether the gateway's version follows server_name; ERROR frames and public HTTP answers never have it."""

    connect_timeout: Annotated[Seconds, Field(gt=0, le=600)] = 10.0
    """Seconds from the connection to the login (RabbitMQ: 10); the WebSocket upgrade has as many."""

    heartbeat_send: Annotated[Milliseconds, Field(ge=0, le=3_600_000)] = 250
    """Shortest interval in milliseconds at which the server can send heart-beats (0: never). Clients may ask for a
    longer one."""

    heartbeat_receive: Annotated[Milliseconds, Field(ge=0, le=3_600_000)] = 250
    """Shortest interval in milliseconds at which the server wants heart-beats (0: none)."""

    heartbeat_margin: Annotated[float, Field(ge=1.2, le=100)] = 2.0
    """Heart-beat intervals without a byte after which a client counts as dead."""

    websocket_ping: Annotated[Seconds, Field(ge=0, le=3600)] = 25.0
    """Seconds between WebSocket pings to each client (0: none). nginx closes an idle connection after 60."""

    close_linger: Annotated[Seconds, Field(ge=0, le=30)] = 1.0
    """Seconds for which a closed connection stays readable, for the ERROR."""

    drain_timeout: Annotated[Seconds, Field(gt=0, le=600)] = 10.0
    """Seconds that a shutdown may take before connections are cut. Under hypercorn's own command it is at most 60."""

    drain_retry: Annotated[Milliseconds, Field(ge=0, le=3_600_000)] = 2_000
    """Milliseconds after which clients should reconnect after a shutdown (`retry-after` on the ERROR)."""

    max_headers: Annotated[int, Field(ge=10, le=100_000)] = 1_000
    """Header lines per frame (RabbitMQ: 100, Apollo: 1,000)."""

    max_header_line: Annotated[Size, Field(ge=256, le=16 * MIB)] = 64 * KIB
    """Bytes of one header line (RabbitMQ: 100 KiB)."""

    max_body: Annotated[Size, Field(ge=KIB, le=1024 * MIB)] = 16 * MIB
    """Bytes of one body."""

    max_connect_header_line: Annotated[Size, Field(ge=256, le=MIB)] = 8 * KIB
    """Bytes of one header line before login; enough for a token."""

    max_connect_headers: Annotated[int, Field(ge=5, le=10_000)] = 64
    """Header lines of a frame before login."""

    max_subscriptions: Annotated[int, Field(ge=1, le=10_000_000)] = 20_000
    """Subscriptions per session; each costs about 1 KiB."""

    max_transactions: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Open transactions per session (RabbitMQ: 16)."""

    max_transaction_bytes: Annotated[Size, Field(ge=KIB, le=1024 * MIB)] = 16 * MIB
    """Bytes held by all open transactions of one session until COMMIT."""

    max_unacknowledged: Annotated[int, Field(ge=1, le=10_000_000)] = 1_000
    """Unacknowledged messages of one subscription to a queue without `prefetch-count` (ActiveMQ: 1,000). Further
    messages wait."""

    max_unacknowledged_bytes: Annotated[Size, Field(ge=KIB, le=4096 * MIB)] = 64 * MIB
    """Bytes of unacknowledged messages of one subscription. Further messages wait; a larger one is sent alone."""

    max_outbound: Annotated[Size, Field(ge=64 * KIB, le=4096 * MIB)] = 32 * MIB
    """Bytes that may wait for one client, at least twice max_body. At 3/4 of it its publishers are blocked; above it a
    client that does not read within slow_consumer_timeout is closed."""

    slow_consumer_timeout: Annotated[Seconds, Field(gt=0, le=600)] = 2.0
    """Seconds for which a client that reads nothing may block its publishers. Then a full buffer closes it."""

    memory_limit: Annotated[Size, Field(ge=MIB, le=1024 * 1024 * MIB)] = 1024 * MIB
    """Bytes of all messages in memory. From 3/4 of it publishers are blocked; at the limit messages are refused,
    and the client that costs most memory is closed. No accepted message is dropped. `memory_mark` may lower it at the
    start."""

    max_destinations: Annotated[int, Field(ge=1, le=100_000_000)] = 1_000_000
    """Queues that hold messages or have subscribers."""

    max_delayed: Annotated[int, Field(ge=0, le=100_000_000)] = 1_000_000
    """Delayed messages (0: every delay is refused)."""

    max_durable_subscriptions: Annotated[int, Field(ge=0, le=10_000_000)] = 100_000
    """Durable and shared subscriptions, at about 4 KiB each; the policy key `idle_timeout` ends unused ones."""

    max_retained: Annotated[int, Field(ge=0, le=100_000_000)] = 100_000
    """Retained messages, one for each topic (0: `retain:set` is refused)."""

    dedup_window: Annotated[Seconds, Field(ge=0, le=604_800)] = 600.0
    """Seconds for which a `dedup-id` is remembered (0: not at all). Must be longer than any client retries."""

    max_dedup_ids: Annotated[int, Field(ge=1, le=100_000_000)] = 100_000
    """Remembered `dedup-id`s, at about 200 bytes each. Above it the oldest of the destinations with most are
    forgotten."""

    client_queue_arguments: bool = True
    """Whether clients may narrow the policy of a queue that they create, by headers like `x-max-length`. False: they
    get an ERROR."""

    lenient: bool = False
    """Whether 1.1 and 1.2 clients may do what RabbitMQ and ActiveMQ allow: SUBSCRIBE without `id` (then the destination
    is the id); ACK and NACK by the message-id, in 1.1 with any `subscription`. False: an ERROR, as specified."""

    handlers: Attribute = ""
    """Python [functions](handlers.md) that handle messages to `/app/`, as `module:attribute`; the working directory is
    searched last."""

    log_format: str = Field("auto", pattern="^(auto|json|human)$")
    """`json`, `human`, or `auto`: human on a terminal, else JSON."""

    log_level: str = Field("info", pattern="^(debug|info|warning|error)$")
    """Lowest level that is logged."""

    # Last, because in the file no other setting can follow a [[policy]] header.
    policy: tuple[policies.PolicyTable, ...] = ()
    """[Policies](policies.md) of destinations by pattern. There is no variable."""

    _old_names: tuple[str, ...] = PrivateAttr(())

    @field_validator("policy", mode="before")
    @classmethod
    def _check_policies(cls, value: object) -> tuple[policies.PolicyTable, ...]:
        return policies.read_tables(value, cls.model_fields.keys())

    @model_validator(mode="after")
    def _check_together(self) -> Settings:
        for is_wrong, names, reason in self._conflicts():
            if is_wrong:
                raise errors.SettingsConflict(reason, **{name: getattr(self, name) for name in names})
        return self

    def _conflicts(self) -> Iterator[tuple[object, Sequence[str], str]]:
        """Checks of settings that must fit together: what makes them wrong, their names, and why."""
        names: Sequence[str] = ("max_connect_header_line", "max_header_line")
        is_wrong: object = self.max_connect_header_line > self.max_header_line
        yield is_wrong, names, "max_connect_header_line must not be larger than max_header_line"
        names = [name for name in ("events_of", "events_of_sessions") if getattr(self, name)]
        yield names and not self.events, names, f"{' and '.join(names)} needs events, the queue or topic for them"
        reason = "max_body must be at most a quarter of memory_limit, or one message could stop all publishers"
        yield self.max_body > self.memory_limit // 4, ("max_body", "memory_limit"), reason
        names = [name for name in ("http", "tcp", "websocket") if not getattr(self, name)]
        is_wrong = not self.http or not (self.tcp or self.websocket or self.tcp_tls or self.websocket_tls)
        yield is_wrong, names, "http, and one of tcp, websocket, tcp_tls and websocket_tls, must name an address"
        reason = "max_outbound must be at least twice max_body, or one large message would make its receiver a slow "
        yield self.max_outbound < 2 * self.max_body, ("max_outbound", "max_body"), f"{reason}consumer"
        reason = "cookie_keys needs a list of origins, or any page could use the cookie of the user who opens it"
        yield self.cookie_keys is not None and "*" in self.allowed_origins, ["allowed_origins"], reason
        reason = "admin_groups needs an authenticator that knows groups, like users_file, or no user can log in"
        yield self.admin_groups and self.anonymous, ["admin_groups"], reason
        listeners = [*self.tcp, *self.tcp_tls, *self.websocket, *self.websocket_tls]
        yield from self._cluster_conflicts(self.store, listeners)
        yield from self._edge_conflicts([name for name in self.model_fields_set if getattr(self, name)])

    @property
    def store_file(self) -> Path | None:
        """The file of the store; None: messages are kept in memory."""
        return None if self.store == "memory" else Path(self.store.removeprefix("sqlite:")).absolute()

    @property
    def journal_name(self) -> str:
        """The name of this gateway in the journal."""
        chosen = self.journal_id if "journal_id" in self.model_fields_set or not self.cluster else self.node_name
        return chosen.lstrip("-") or self.journal_id

    @property
    def old_names(self) -> tuple[str, ...]:
        """A sentence for each setting that was read by its old name."""
        return self._old_names

    @property
    def anonymous(self) -> bool:
        """True if no authenticator is set, so that every client may log in."""
        found = (self.users_file, self.jwt_keys, self.cookie_keys, self.authenticator, self.certificates_are_users)
        return not any(found)

    @property
    def is_edge(self) -> bool:
        """True if this gateway is an edge of another one, which has the messages."""
        return bool(self.edge_of) and not self.cluster

    @property
    def policy_by_pattern(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Pattern and keys of the `[[policy]]` tables, one pair for each pattern."""
        return [(text, table.values) for table in self.policy for text in table.match]

    @property
    def exposed(self) -> list[Address]:
        """The STOMP addresses that other machines can reach."""
        return [address for name in _STOMP for address in _exposed(getattr(self, name))]


PLACES = [name for name, field in Settings.model_fields.items() if field.annotation == Path | None]
"""Settings that are paths."""


def _exposed(texts: list[str]) -> list[Address]:
    return [address for address in map(Address.parse, texts) if not address.is_loopback]


def load(**arguments: Any) -> Settings:
    """Read the settings; arguments override variables and file.  Raises SettingsError."""
    file = toml_file.read()
    sources = errors.Sources(file, arguments)
    errors.refuse_unknown(Settings.model_fields, file)
    values = file.rooted(PLACES, LISTENERS)
    try:
        given = {name: values[name] for name in values if sources.is_in_file(name)}
        given |= {name: os.environ[old] for old, name in toml_file.old_variables().items() if sources.of(name) == old}
        given |= errors.from_environment(Settings.model_fields)
        settings = Settings(**(given | arguments))
        settings._old_names = tuple(toml_file.old_names(str(file.path), file.written))
    except ValidationError as error:
        raise SettingsError(errors.sentence(error, sources, Settings.model_fields)) from None
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
