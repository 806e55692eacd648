"""JetStream's errors as those of the cluster: the servers are unavailable, or refuse something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from .log import LogUnavailable
from .nats.faults import NatsUnavailable
from .nats.jetstream import JetStreamError

Refusals = Mapping[int, Callable[[JetStreamError], Exception]]
"""`err_code` of JetStream -> the error that it becomes."""


@contextmanager
def told(sentence: str, known: Refusals | None = None) -> Iterator[None]:
    """Turn the errors of the block into LogUnavailable, or into those that are known.

    `sentence`: begins that of any other refusal.
    """
    try:
        yield
    except NatsUnavailable as error:
        raise LogUnavailable(str(error)) from None
    except JetStreamError as error:
        make = (known or {}).get(error.code)
        raise (LogUnavailable(f"{sentence}: {error}") if make is None else make(error)) from None
