"""Options: what the settings say of connections."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.codec import Limits

from .connection_limits import Capacity

NO_BODY = "CONNECT and STOMP need none"
"""Stands in the ERROR where a setting would be named: the limit of a body before login has none."""


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """The settings of the same names explain each field.

    Times are in seconds, but for heart-beats and `drain_retry`, which are in milliseconds.
    """

    server: str = "stomp-gateway"
    limits: Limits = field(default_factory=Limits)
    connect_limits: Limits = field(default_factory=lambda: Limits(64, 8 * 1024, 1024, "max_connect_", NO_BODY))
    connect_timeout: float = 10.0
    heartbeat_send: int = 250
    heartbeat_receive: int = 250
    heartbeat_margin: float = 2.0
    websocket_path: str = "/ws"
    websocket_ping: float = 25.0
    allowed_origins: tuple[str, ...] = ()
    anonymous: bool = True
    close_linger: float = 1.0
    drain_retry: int = 2_000
    slow_consumer_timeout: float = 2.0
    token_warning: float = 60.0
    capacity: Capacity = field(default_factory=Capacity)
    max_frames_per_second: int = 0
    max_bytes_per_second: int = 0
    max_frames_per_second_per_user: int = 0
    max_bytes_per_second_per_user: int = 0
    max_frames_per_second_per_address: int = 0
    max_bytes_per_second_per_address: int = 0
