"""The module that the setting `handlers` names: `module:attribute`, where the attribute is a `Handlers`.

It is looked for where Python looks, and at last in the working directory: so a file beside `gateway.toml` will do, and
none there can take the place of an installed module.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback

from .registry import Handlers


class HandlersError(Exception):
    """There are no such functions; `str()` is one sentence."""


def load(text: str) -> Handlers:
    """Import the operator's module.

    Args:
        text: `module:attribute`.

    Raises:
        HandlersError: it cannot be imported, or there is no `Handlers` in it.
    """
    name, _, attribute = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise HandlersError(f"cannot import {name}: {_shown(error)}") from error
    found = getattr(module, attribute, None)
    if isinstance(found, Handlers):
        return found
    there = f"{attribute} is a {type(found).__name__}" if hasattr(module, attribute) else f"there is no {attribute}"
    known = [key for key, value in vars(module).items() if isinstance(value, Handlers)]
    hint = f"; write {name}:{known[0]}" if known else ""
    raise HandlersError(f"{there} in {name}, and it should be a gateway.handlers.Handlers{hint}")


def _shown(error: Exception) -> str:
    """An error in one line, with the line of the operator's code that it came from."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not _is_machinery(each.filename)]
    return f"{text} ({frames[-1].filename} line {frames[-1].lineno})" if frames else text


def _is_machinery(filename: str) -> bool:
    return filename == importlib.__file__ or filename.startswith(("<frozen", os.path.dirname(__file__)))
