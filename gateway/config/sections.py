"""Sections of the settings: TLS, authentication, authorization and limits; the journal, the archive and the tables;
metrics and traces.

Parts of `gateway.config.settings.Settings`, which reads and checks all settings together.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from gateway.config import rules
from gateway.config.kinds import (
    KIB,
    MIB,
    Addresses,
    Attribute,
    Bodies,
    Endpoint,
    EventsDestination,
    MetricsPatterns,
    Names,
    Networks,
    Place,
    Seconds,
    Size,
    Token,
)
from gateway.journal import Sync

FrameRate = Annotated[int, Field(ge=0, le=10_000_000)]
ByteRate = Annotated[Size, Field(ge=0, le=1024 * 1024 * MIB)]


_PART = ConfigDict(defer_build=True)  # only the whole is used


class SecuritySettings(BaseModel):
    """TLS, authenticators, rules, and limits."""

    model_config = _PART

    tcp_tls: Addresses = Field([])
    """Addresses of STOMP over TCP with TLS. 61614 is the usual port."""

    websocket_tls: Addresses = Field([])
    """Addresses of STOMP over WebSocket with TLS (`wss:`). RabbitMQ uses port 15673."""

    tls_certificate: Place = None
    """File of the certificate chain, in PEM, the server's own certificate first."""

    tls_key: Place = None
    """File of the private key of tls_certificate, in PEM, without a passphrase."""

    tls_min_version: str = Field("1.2", pattern="^1[.][23]$", description='"1.2" or "1.3", in quotes')
    """Lowest version of TLS: 1.2 or 1.3."""

    tls_client_ca: Place = None
    """File of the authorities, in PEM, that sign client certificates. None: clients are not asked for certificates."""

    tls_client_certificates: str = Field("optional", pattern="^(optional|required)$")
    """Whether clients must send a certificate of tls_client_ca."""

    tls_user: str = Field("common-name", pattern="^(none|common-name|subject|dns|email|uri)$")
    """Name in a client certificate that is the user's name. `none`: the client also logs in."""

    trusted_proxies: Networks = Field([])
    """Addresses and networks of proxies that may name the client's address (`X-Forwarded-For`, `Forwarded`, PROXY
    protocol); `unix`: proxies on unix sockets."""

    tcp_proxy_protocol: bool = False
    """Whether connections to tcp and tcp_tls begin with a PROXY protocol header (HAProxy; nginx with `proxy_protocol
    on`). Then all must have one, and come from trusted_proxies."""

    websocket_proxy_protocol: bool = False
    """Whether connections to websocket and websocket_tls begin with a PROXY protocol header, before the HTTP
    request."""

    authenticator: Attribute = ""
    """Python [function](security.md#a-function-of-your-own) that authenticates clients, as `module:attribute`. It is
    asked when no other authenticator knows the kind of credentials."""

    jwt_keys: Place = None
    """File of the keys that verify tokens (JWT): a public key in PEM, a JWKS file, or a secret of at least 32 bytes for
    HS256. None: tokens are not accepted."""

    jwt_issuer: str = ""
    """Value that the claim `iss` must have. Empty: any."""

    jwt_audience: str = ""
    """Value that the claim `aud` must have or contain. Empty: any."""

    jwt_user_claim: str = Field("sub", min_length=1, description="a text that is not empty")
    """Claim that holds the user's name; `a.b` is the claim `b` in the claim `a`."""

    jwt_groups_claim: str = "groups"
    """Claim that lists the user's groups: an array, or words, like `realm_access.roles` of Keycloak."""

    jwt_leeway: Annotated[Seconds, Field(ge=0, le=300)] = 10.0
    """Seconds by which the clocks of issuer and gateway may differ."""

    token_warning: Annotated[Seconds, Field(ge=0, le=86_400)] = 60.0
    """Seconds before a token expires at which its session is warned, to renew it."""

    ticket_lifetime: Annotated[Seconds, Field(gt=0, le=600)] = 30.0
    """Seconds for which a ticket of `POST /api/v1/tickets` is valid."""

    max_tickets: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Unused tickets at once."""

    cookie_name: str = Field(
        "session", pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", description="letters, digits and !#$%&'*+.^_`|~-"
    )
    """Name of the signed cookie of the upgrade."""

    cookie_keys: Place = None
    """File of the secrets, one a line, that sign cookies (itsdangerous, as Flask and Starlette use it), the newest
    first. None: cookies are not accepted."""

    cookie_age: Annotated[Seconds, Field(gt=0, le=31_536_000)] = 43_200.0
    """Seconds for which a signed cookie is valid."""

    cookie_user: str = Field("user", min_length=1, description="a text that is not empty")
    """Key in the cookie's data that holds the user's name."""

    login_attempts: Annotated[int, Field(ge=1, le=100_000)] = 60
    """Wrong passcodes of one address in a minute, and refusals of the `authenticator`, after which its logins are
    refused unchecked for a minute. An address with a successful login within a day is checked until it has as many
    failures of its own. Tokens, tickets, cookies and certificates are always checked."""

    login_delay: Annotated[Seconds, Field(ge=0, le=10)] = 1.0
    """Seconds until a failed login is answered, so that guessing is slow."""

    admin_groups: Names = Field([])
    """Groups whose users may use the admin API and the console with login and passcode."""

    metrics_token: Token = Field("", repr=False)
    """Bearer token for `/metrics` only. Empty: scrapers need the credentials of the admin API."""

    max_connections: Annotated[int, Field(ge=1, le=10_000_000)] = 50_000
    """Connections; the limit of open files bounds them, too."""

    max_connections_per_address: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Connections of one client address, or of one /64 network of IPv6 (0: no limit). Behind a proxy outside
    trusted_proxies all clients have one address."""

    max_connections_per_user: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Sessions of one user (0: no limit); `anonymous` has no limit."""

    max_handshakes: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Connections that have not logged in. Above it, one of the address that has most is closed: the oldest without
    credentials, else the newest. Each edge has its share."""

    max_frames_per_second: FrameRate = 0
    """Average frames per second of one session (0: no limit). The gateway reads from it no faster."""

    max_bytes_per_second: ByteRate = 0
    """Average bytes per second of one session (0: no limit)."""

    max_frames_per_second_per_user: FrameRate = 0
    """Average frames per second of all sessions of one user (0: no limit); `anonymous` has no limit."""

    max_bytes_per_second_per_user: ByteRate = 0
    """Average bytes per second of all sessions of one user (0: no limit)."""

    max_frames_per_second_per_address: FrameRate = 0
    """Average frames per second of all sessions of one address, or one /64 network of IPv6 (0: no limit). Unix sockets
    and trusted_proxies have no limit."""

    max_bytes_per_second_per_address: ByteRate = 0
    """Average bytes per second of all sessions of one address (0: no limit)."""

    memory_mark: Annotated[Size, Field(ge=0, le=1024 * 1024 * MIB)] = 0
    """Bytes of memory that the process and its edges may use. From 3/4 of it publishers are blocked; at the mark the
    client that costs most memory is closed. 0: 3/4 of the memory of the container or machine."""

    rule: tuple[rules.RuleTable, ...] = ()
    """Permissions of users: [rules](rules.md). There is no variable. None: every client may do everything. Otherwise
    what no rule allows is refused."""

    @field_validator("rule", mode="before")
    @classmethod
    def _check_rules(cls, value: object) -> tuple[rules.RuleTable, ...]:
        return rules.read_tables(value, cls.model_fields.keys())

    @property
    def certificates_are_users(self) -> bool:
        """True if a client's certificate names its user."""
        return self.tls_client_ca is not None and self.tls_user != "none"


class JournalSettings(BaseModel):
    """The journal, the archive, and the tables."""

    model_config = _PART

    journal: Place = None
    """Folder of the [journal](journal.md). None: nothing is recorded."""

    journal_id: str = Field(
        "gateway",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$",
        description="up to 64 letters, digits, dots, dashes and underscores, the first of them no dot and no dash",
    )
    """Name of this gateway in the journal. Gateways that share the folder need different names. In a cluster the
    default is the node's name."""

    journal_sync: Sync = Sync.NONE
    """When records are forced to the disk: `none` (the system decides), `interval` (once a second), `flush` (20 times a
    second). A record survives the process after 50 ms; only `interval` and `flush` make it survive a power cut."""

    journal_queue: Annotated[Size, Field(ge=64 * KIB, le=1024 * MIB)] = 64 * MIB
    """Bytes of records that may wait for the disk."""

    journal_when_full: str = Field("drop", pattern="^(drop|block)$")
    """When journal_queue is full: `drop` leaves records out and counts them; `block` blocks publishers from 3/4 of
    it."""

    journal_bodies: Bodies = "all"
    """How much of each body the journal keeps: `all`, `none`, or bytes from its start. A policy key of this name
    overrides it."""

    journal_gauges: Annotated[Seconds, Field(ge=0, le=3600)] = 10.0
    """Seconds between two records of unacknowledged and waiting messages (0: never)."""

    archive: Place = None
    """Folder of the [archive](archive.md), for `gateway archive` and `gateway pipeline` only."""

    tables: Place = None
    """Folder of the tables of [`gateway pipeline`](pipeline.md)."""


class ObserveSettings(BaseModel):
    """Metrics of single destinations, and traces."""

    model_config = _PART

    metrics_destinations: MetricsPatterns = Field([])
    """Queues and topics with [metrics](metrics.md#destinations) of their own, by name or pattern (`/queue/orders.#`):
    at most the first 100 that match."""

    events: EventsDestination = ""
    """Queue or topic for [events](push.md#events): which destinations are occupied, sessions, dead letters. Empty: no
    events."""

    events_of: MetricsPatterns = Field([])
    """Queues and topics that the events are about, by name or pattern (`/topic/room.>`)."""

    events_of_sessions: bool = False
    """Whether there are events of sessions, too. They name users and addresses."""

    trace_endpoint: Endpoint = ""
    """Address of the collector, as OTLP over HTTP: `http://127.0.0.1:4318/v1/traces`. Needs the extra `otel`. Empty: no
    [tracing](tracing.md)."""

    trace_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Fraction of messages that are traced; the flag of a `traceparent` takes precedence."""
