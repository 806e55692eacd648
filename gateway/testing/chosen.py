"""Settings of a gateway inside a test: those that the test gives, or those of a file.

Neither the working directory nor the variables of the environment change them, so that a test passes everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from pydantic import ValidationError

from gateway.config import errors, toml_file
from gateway.config.settings import Settings, SettingsError, load

Given = Mapping[str, Any] | Path | str
"""Settings by their names, as in `gateway.toml`; or the path of such a file."""

_LOOPBACK = ["127.0.0.1:0"]
# What a file may say about the place where the gateway runs: a test has listeners of its own, and leaves no trace.
_ELSEWHERE = {
    "tcp": _LOOPBACK,
    "websocket": _LOOPBACK,
    "http": _LOOPBACK,
    "tcp_tls": [],
    "websocket_tls": [],
    "cluster": "",
    "edges": 0,
    "edge_listen": [],
    "edge_of": [],
    "journal": None,
    "trace_endpoint": "",
}


def settings_for(given: Given, own: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a test's gateway; `own` are put over what is given.  Raises SettingsError: one is wrong."""
    own = dict(own or {})
    if isinstance(given, (str, Path)):
        _check(own)
        with _environment(Path(given)):
            return load(**{"store": "memory", **own, **_ELSEWHERE})
    values = {**given, **own}
    _check(values)
    try:
        return Settings(**{**values, **_ELSEWHERE})
    except ValidationError as error:
        sources = errors.Sources(toml_file.SettingsFile(Path("gateway_settings"), "", {}), values)
        raise SettingsError(errors.sentence(error, sources, Settings.model_fields)) from None


def _check(values: Mapping[str, Any]) -> None:
    for name in values:
        if name not in Settings.model_fields:
            raise SettingsError(f"gateway_settings: there is no setting {name!r}; docs/settings.md has all")
        if name in _ELSEWHERE:
            raise SettingsError(f"gateway_settings: leave out {name!r}; the gateway of a test has its own value")


@contextmanager
def _environment(file: Path) -> Iterator[None]:
    """That file, and no variable of the gateway."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("GATEWAY_")}
    with mock.patch.dict(os.environ, {**kept, "GATEWAY_CONFIG": str(file)}, clear=True):
        yield
