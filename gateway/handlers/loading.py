"""Loading of the operator's functions: the `Handlers` that the setting `handlers` names as `module:attribute`."""

from __future__ import annotations

from gateway import plugins

from .registry import Handlers


class HandlersError(Exception):
    """The functions cannot be loaded; `str()` is one sentence."""


def load(text: str) -> Handlers:
    """Import the operator's module.  Raises HandlersError: it cannot be imported, or the attribute is no `Handlers`."""
    try:
        found: Handlers = plugins.load(
            text, lambda value: isinstance(value, Handlers), "a gateway.handlers.Handlers", hints=True
        )
    except plugins.PluginError as error:
        raise HandlersError(str(error)) from error
    return found
