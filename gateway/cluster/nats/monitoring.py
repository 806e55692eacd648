"""What the monitoring port of a NATS server tells: HTTP, without a login."""

from __future__ import annotations

import http.client
import json
from typing import Any

MONITORING = 8222
"""The usual port."""


def monitored(host: str, port: int, patience: float) -> dict[str, Any] | None:
    """The server's variables; None: nothing answers there, or something else.  `patience`: seconds."""
    connection = http.client.HTTPConnection(host, port, timeout=patience)
    try:
        connection.request("GET", "/varz")
        values = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return values if isinstance(values, dict) and "jetstream" in values else None
