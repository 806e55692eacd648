"""The settings of who may come in, by which way, and how much of everything a stranger may take.

They are a part of `gateway.config.settings.Settings`, which reads and checks them together with the rest.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from gateway.config import rules
from gateway.config.kinds import Addresses, Attribute, Names, Networks, Octets, Place, Token

KIB = 1024
MIB = 1024 * KIB

FrameRate = Annotated[int, Field(ge=0, le=10_000_000)]


class Security(BaseSettings):
    """Settings of listeners with TLS, of authenticators and of limits against the greedy."""

    tcp_tls: Addresses = Field(
        [],
        description="Addresses of the STOMP over TCP listener with TLS, like those of tcp; 61614 is the port the field "
        "uses.",
    )
    websocket_tls: Addresses = Field(
        [],
        description="Addresses of the STOMP over WebSocket listener with TLS (`wss:`), like those of websocket; "
        "RabbitMQ's users dial 15673.",
    )
    tls_certificate: Place = Field(
        None,
        description="File of the certificate chain, in PEM, the server's own first. Read again on SIGHUP; sessions "
        "go on.",
    )
    tls_key: Place = Field(None, description="File of its private key, in PEM, without a passphrase.")
    tls_min_version: str = Field(
        "1.2",
        pattern="^1[.][23]$",
        description="The lowest version of TLS that is spoken: 1.2, or 1.3. Older ones are broken, and never are.",
    )
    tls_client_ca: Place = Field(
        None,
        description="File of the authorities, in PEM, whose client certificates are believed. None: no client is "
        "asked for one.",
    )
    tls_client_certificates: str = Field(
        "optional",
        pattern="^(optional|required)$",
        description="Whether a client must show a certificate of tls_client_ca.",
    )
    tls_user: str = Field(
        "common-name",
        pattern="^(none|common-name|subject|dns|email|uri)$",
        description="What of a client's certificate is the user's name; `none`: it only has to have one, and logs in "
        "besides.",
    )
    trusted_proxies: Networks = Field(
        [],
        description="Addresses and networks of proxies that are believed when they name the client "
        "(`X-Forwarded-For`, `Forwarded`, PROXY protocol), comma-separated; `unix` for those on unix sockets.",
    )
    tcp_proxy_protocol: bool = Field(
        False,
        description="Whether connections to tcp and tcp_tls begin with a PROXY protocol header, version 1 or 2, as "
        "HAProxy and nginx (`proxy_protocol on`) send it. Each must then, and come from trusted_proxies.",
    )
    websocket_proxy_protocol: bool = Field(
        False, description="The same for websocket and websocket_tls, below the HTTP request."
    )

    authenticator: Attribute = Field(
        "",
        description="A Python function that decides who may come in, as `module:attribute`, looked for last in the "
        "working directory. Asked when no other authenticator knows the kind of what the client shows. See "
        "[security](security.md).",
    )
    jwt_keys: Place = Field(
        None,
        description="File of the keys that tokens (JWT) are signed with: a public key in PEM, a JWKS file, or a "
        "secret of at least 32 octets for HS256. Read again when it changes. None: tokens are not accepted.",
    )
    jwt_issuer: str = Field("", description="What the claim `iss` must be. Empty: anything.")
    jwt_audience: str = Field("", description="What the claim `aud` must be, or have. Empty: anything.")
    jwt_user_claim: str = Field(
        "sub", min_length=1, description="The claim that is the user's name; `a.b` is the claim `b` in the claim `a`."
    )
    jwt_groups_claim: str = Field(
        "groups",
        description="The claim that lists the user's groups, for the rules; an array, or words, like "
        "`realm_access.roles` of Keycloak. Empty: none.",
    )
    jwt_leeway: float = Field(
        10.0, ge=0, le=300, description="Seconds by which the clocks of issuer and gateway may differ."
    )
    token_warning: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="Seconds before the end of a token at which its session is warned, so that it can renew it.",
    )
    ticket_lifetime: float = Field(
        30.0,
        gt=0,
        le=600,
        description="Seconds in which a ticket of `POST /api/v1/tickets` must be used; each is good once.",
    )
    max_tickets: int = Field(10_000, ge=1, le=1_000_000, description="Tickets that wait to be used, at once.")
    cookie_name: str = Field(
        "session", pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", description="Name of the signed cookie of the upgrade."
    )
    cookie_keys: Place = Field(
        None,
        description="File of the secrets, one a line, that cookies are signed with (itsdangerous, as Flask and "
        "Starlette sign them); the first is the newest. None: cookies are not accepted.",
    )
    cookie_age: float = Field(
        43_200.0, gt=0, le=31_536_000, description="Seconds for which a signed cookie is believed."
    )
    cookie_user: str = Field("user", min_length=1, description="The key in the cookie's data that is the user's name.")
    login_attempts: int = Field(
        60,
        ge=1,
        le=100_000,
        description="Wrong passcodes of one address, in one minute, before it is refused unheard for a minute; "
        "also what the `authenticator` refuses. A login that was right there within a day is heard all the same, until "
        "it has so many of its own. One a second, for an old client that dials again every 5 s shares its "
        "address with a whole office. Tokens, tickets, cookies and certificates, which nobody guesses, are heard all "
        "the same.",
    )
    login_delay: float = Field(
        1.0, ge=0, le=10, description="Seconds after which a failed login is answered, so that guessing is slow."
    )

    admin_groups: Names = Field(
        [],
        description="Groups, comma-separated, whose users may use the admin API and the console, as who shows the "
        "`admin_token` may: they log in there with login and passcode. Needs an authenticator that tells groups.",
    )
    metrics_token: Token = Field(
        "",
        repr=False,
        description="Bearer token that is good for `/metrics` and nothing else, for scrapers. Empty: they need what "
        "the admin API needs.",
    )

    max_connections: int = Field(
        50_000,
        ge=1,
        le=10_000_000,
        description="Connections at once; bounded by the files that the process may open, too.",
    )
    max_connections_per_address: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="Connections of one client address, or one /64 of IPv6, at once (0: any number). Behind a proxy "
        "that is not among trusted_proxies all clients have one address.",
    )
    max_connections_per_user: int = Field(
        0, ge=0, le=10_000_000, description="Sessions of one user at once (0: any number); `anonymous` is no user."
    )
    max_handshakes: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="Connections at once that have not logged in yet; when there are more, one of the address that has "
        "most of them is closed: the oldest that has not said who it is, else the newest.",
    )
    max_frames_per_second: FrameRate = Field(
        0,
        description="Frames that a session may send in a second, on average (0: any number); it is read no faster.",
    )
    max_octets_per_second: Octets = Field(
        0,
        ge=0,
        le=1024 * 1024 * MIB,
        description="Octets that a session may send in a second, on average (0: any number); it is read no faster.",
    )
    max_frames_per_second_per_user: FrameRate = Field(
        0,
        description="Frames that all sessions of one user together may send in a second, on average (0: any number); "
        "`anonymous` is no user.",
    )
    max_octets_per_second_per_user: Octets = Field(
        0,
        ge=0,
        le=1024 * 1024 * MIB,
        description="Octets that all sessions of one user together may send in a second, on average (0: any number).",
    )
    max_frames_per_second_per_address: FrameRate = Field(
        0,
        description="Frames that all sessions of one client address, or one /64 of IPv6, together may send in a "
        "second, on average (0: any number). Unix sockets have no address; those of trusted_proxies have no limit.",
    )
    max_octets_per_second_per_address: Octets = Field(
        0,
        ge=0,
        le=1024 * 1024 * MIB,
        description="Octets that all sessions of one client address, or one /64 of IPv6, together may send in a "
        "second, on average (0: any number).",
    )
    memory_mark: Octets = Field(
        0,
        ge=0,
        le=1024 * 1024 * MIB,
        description="Octets of memory that the process may take, all told. From 3/4 of it on publishers are held back, "
        "at the mark the client that costs most is closed. 0: 3/4 of what the container, or the machine, has.",
    )

    rule: Annotated[tuple[rules.Table, ...], NoDecode] = Field(
        (),
        description="Who may send, subscribe and administer where, as `[[rule]]` tables at the end of the file; no "
        "variable. None: everybody may do everything. Where there are any, what none allows is refused. See "
        "[rules](rules.md).",
    )

    @field_validator("rule", mode="before")
    @classmethod
    def _are_rules(cls, value: object) -> tuple[rules.Table, ...]:
        return rules.read_tables(value, cls.model_fields.keys())

    @property
    def certificates_are_users(self) -> bool:
        """Whether a client's certificate says who it is."""
        return self.tls_client_ca is not None and self.tls_user != "none"
