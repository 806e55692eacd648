"""Wiring: quotas and policies of the broker, and options of the transports, from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
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

# A body before login is a mistake or an attack; so many bytes of it are read and ignored.
_CONNECT_BODY = 1024


def _fields_of(kind: Any, settings: Settings) -> dict[str, Any]:
    """The fields of a dataclass that have the name of a setting."""
    names = [each.name for each in fields(kind) if each.name in Settings.model_fields]
    return {name: getattr(settings, name) for name in names}


def quotas_of(settings: Settings) -> Quotas:
    return Quotas(**_fields_of(Quotas, settings))


def policies_of(settings: Settings) -> Policies:
    """The policies of destinations in the order of the file, after the default for the functions' dead letters."""
    ours = (Pattern(OF_SENDS), {"dead_letter": DEAD_LETTERS})
    return Policies([ours, *[(Pattern(text), values) for text, values in tables_of(settings)]])


def tables_of(settings: Settings) -> list[tuple[str, Mapping[str, Any]]]:
    """Pattern and keys of the `[[policy]]` tables, one pair for each pattern."""
    return [(text, table.values) for table in settings.policy for text in table.match]


def options_of(settings: Settings) -> TransportOptions:
    made: dict[str, Any] = {
        "server": f"{settings.server_name}/{__version__}" if settings.server_version else settings.server_name,
        "limits": Limits(settings.max_headers, settings.max_header_line, settings.max_body),
        "connect_limits": Limits(
            settings.max_connect_headers, settings.max_connect_header_line, _CONNECT_BODY, "max_connect_", NO_BODY
        ),
        "allowed_origins": tuple(settings.allowed_origins),
        "capacity": Capacity(**_fields_of(Capacity, settings)),
    }
    return TransportOptions(**_fields_of(TransportOptions, settings) | made)
