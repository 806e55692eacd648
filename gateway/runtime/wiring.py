"""What each layer takes from the settings: the broker its quotas and policies, the transports their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway import __version__
from gateway.broker import Quotas
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.codec import Limits
from gateway.config.settings import Settings
from gateway.handlers import DEAD_LETTERS, OF_SENDS
from gateway.transports import TransportOptions
from gateway.transports.flow.connection_limits import Capacity
from gateway.transports.flow.options import NO_BODY

# A body before login is a mistake, or an attack; this much of one is read and ignored.
_CONNECT_BODY = 1024


def quotas_of(settings: Settings) -> Quotas:
    """The broker's part of the settings."""
    return Quotas(
        max_subscriptions=settings.max_subscriptions,
        max_transactions=settings.max_transactions,
        max_transaction_octets=settings.max_transaction_octets,
        max_unacknowledged=settings.max_unacknowledged,
        max_outbound=settings.max_outbound,
        memory_limit=settings.memory_limit,
        max_destinations=settings.max_destinations,
        max_unacknowledged_octets=settings.max_unacknowledged_octets,
        max_delayed=settings.max_delayed,
        max_retained=settings.max_retained,
        max_durable_subscriptions=settings.max_durable_subscriptions,
        dedup_window=settings.dedup_window,
        max_dedup_ids=settings.max_dedup_ids,
        client_queue_arguments=settings.client_queue_arguments,
        lenient=settings.lenient,
    )


def policies_of(settings: Settings) -> Policies:
    """The policies of destinations, in the order of the file, behind the one default that is not the broker's."""
    ours = (Pattern(OF_SENDS), {"dead_letter": DEAD_LETTERS})
    return Policies([ours, *[(Pattern(text), values) for text, values in tables_of(settings)]])


def tables_of(settings: Settings) -> list[tuple[str, Mapping[str, Any]]]:
    """The `[[policy]]` tables: pattern and keys, one for each pattern."""
    return [(text, table.values) for table in settings.policy for text in table.match]


def options_of(settings: Settings) -> TransportOptions:
    """The transports' part of the settings."""
    return TransportOptions(
        server=f"{settings.server_name}/{__version__}" if settings.server_version else settings.server_name,
        limits=Limits(settings.max_headers, settings.max_header_line, settings.max_body),
        connect_limits=Limits(
            settings.max_connect_headers, settings.max_connect_header_line, _CONNECT_BODY, "max_connect_", NO_BODY
        ),
        connect_timeout=settings.connect_timeout,
        heartbeat_send=settings.heartbeat_send,
        heartbeat_receive=settings.heartbeat_receive,
        heartbeat_margin=settings.heartbeat_margin,
        websocket_path=settings.websocket_path,
        websocket_ping=settings.websocket_ping,
        allowed_origins=tuple(settings.allowed_origins),
        anonymous=settings.anonymous,
        close_linger=settings.close_linger,
        drain_retry=settings.drain_retry,
        slow_consumer_timeout=settings.slow_consumer_timeout,
        capacity=Capacity(
            max_connections=settings.max_connections,
            max_connections_per_address=settings.max_connections_per_address,
            max_connections_per_user=settings.max_connections_per_user,
            max_handshakes=settings.max_handshakes,
        ),
        max_frames_per_second=settings.max_frames_per_second,
        max_octets_per_second=settings.max_octets_per_second,
        max_frames_per_second_per_user=settings.max_frames_per_second_per_user,
        max_octets_per_second_per_user=settings.max_octets_per_second_per_user,
        max_frames_per_second_per_address=settings.max_frames_per_second_per_address,
        max_octets_per_second_per_address=settings.max_octets_per_second_per_address,
        token_warning=settings.token_warning,
    )
