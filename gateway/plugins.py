"""Plugins: Python code of the operator, which a setting names as `module:attribute`.

Python's own path is searched first and the working directory last: a file beside `gateway.toml` is found, and no file
there takes the place of an installed module.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


class PluginError(Exception):
    """The module or its attribute cannot be used; `str()` is one sentence."""


def load(text: str, fits: Callable[[object], bool], wanted: str, *, hints: bool = False) -> Any:
    """Import the attribute of a module, `module:attribute`; raises PluginError.

    `fits` is True for an attribute that can be used, `wanted` names such an attribute, with its article.  With `hints`,
    a wrong name is answered with one that fits.
    """
    name, _, attribute = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise PluginError(f"cannot import {name}: {error_line(error)}") from error
    found = getattr(module, attribute, None)
    if fits(found):
        return found
    there = f"{attribute} is a {type(found).__name__}" if hasattr(module, attribute) else f"there is no {attribute}"
    known = [key for key, value in vars(module).items() if hints and fits(value)]
    hint = f"; write {name}:{known[0]}" if known else ""
    raise PluginError(f"{there} in {name}, and it should be {wanted}{hint}")


def error_line(error: Exception) -> str:
    """An exception in one line, with the last line of code outside of the gateway that it came from."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not _is_ours(each.filename)]
    return f"{text} ({frames[-1].filename} line {frames[-1].lineno})" if frames else text


def _is_ours(filename: str) -> bool:
    return filename == importlib.__file__ or filename.startswith(("<frozen", os.path.dirname(__file__) + os.sep))
