"""How the models draw objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import note
from hypothesis import strategies as st

T = TypeVar("T")


def pick(data: st.DataObject, options: Sequence[T]) -> T:
    """One of them, drawn by its place.

    `sampled_from` with objects takes their hashes for a part of the example, and an object that has gone leaves its own
    to the next at that address: then the same seed gives other examples, once in a few runs.
    """
    chosen = options[data.draw(st.sampled_from(range(len(options))))]
    if callable(chosen):
        note(f"# {getattr(chosen, '__name__', chosen)}")
    return chosen
