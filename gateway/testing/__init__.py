"""A gateway inside a test: real sockets at free ports, messages in memory, a clock that the test sets forward.

plugin      the fixtures of pytest, registered as `stomp-gateway`
starting    a gateway in the Trio loop of the test (`open_gateway`), or in a thread beside it (`start_gateway`)
local       the gateway as the test sees it, `LocalGateway`
chosen      its settings
http        health, metrics, API and console, for tests that ask for them

Each test gets a gateway of its own: to open one takes 3 ms and to end it 1 ms, less than to clear one of everything
that a test may leave, and nothing of a test can reach the next.  Only the first costs more: the imports.  So the plugin
imports nothing of the gateway before a test asks for it, and neither does this module.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .local import LocalGateway, LocalMessage
    from .starting import open_gateway, start_gateway

_PLACES = {
    "LocalGateway": "local",
    "LocalMessage": "local",
    "open_gateway": "starting",
    "start_gateway": "starting",
}

__all__ = ["LocalGateway", "LocalMessage", "open_gateway", "start_gateway"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_PLACES[name]}", __name__), name)
