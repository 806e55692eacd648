"""Worker process in which a server (hypercorn, uvicorn) starts the application: a spawned child, even with one worker.

* The parent sends SIGTERM to all workers when one has ended, and a service manager may send it to the whole group:
  either kills a worker while it drains.  The parent stops workers by an event, so a worker ignores SIGTERM.
* A killed parent sends no event, so a worker watches for the parent's end.
* Each worker would be a broker of its own, so only one is allowed.
* hypercorn shows a failed start as a long traceback, so a worker that must not start prints one line, and exits.
* hypercorn's parent restarts its worker on SIGHUP.  The worker itself, like `gateway serve`, reads its files again.
"""

import errno
import hashlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import trio

REFUSED = 1  # exit status of a gateway that did not start, because of its settings or its environment


class SecondWorker(Exception):
    """Another worker of the same server is running; `str()` is one sentence."""

    def __init__(self) -> None:
        super().__init__(
            "each worker process would be a broker of its own, and its clients would not see those of the others: "
            "start the server with one worker (hypercorn: -w 1)"
        )


def is_spawned() -> bool:
    """True in a worker that a server's parent process started."""
    return multiprocessing.parent_process() is not None


def ignore_sigterm() -> None:
    """Leave the end of a spawned worker to its parent.  Only on the main thread, as signals are."""
    if is_spawned():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class HangupSignals:
    """SIGHUP of this process, for the Trio loop of the gateway.

    The handler runs in the main thread, the loop perhaps in another, and a signal may come before the loop starts.
    """

    def __init__(self) -> None:
        self._came = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._wakeup = trio.Event()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signal while the block runs; outside of the main thread it cannot be caught."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGHUP, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)

    def _handle(self, *_: object) -> None:
        self._came = True
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._wake, idempotent=True)

    def _wake(self) -> None:
        self._wakeup.set()

    async def wait(self) -> None:
        """Wait for the next signal, in the Trio loop; several signals before count as one."""
        self._token = trio.lowlevel.current_trio_token()
        while not self._came:
            await self._wakeup.wait()
            self._wakeup = trio.Event()
        self._came = False


def refuse(sentence: str) -> NoReturn:
    """Print why the worker does not start, and end the process without a traceback.

    `os._exit`, because the server would print an exception at length.  Nothing is open yet.
    """
    print(f"gateway: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - for the operator, in any log format
    os._exit(REFUSED)


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the lock of the only worker of this server.

    The lock is an abstract unix socket, which the kernel frees however the process ends.  Its name comes from the
    random key that multiprocessing gives all children of one parent; a process id is the same in every container.

    Raises SecondWorker: another worker holds the lock.
    """
    if not is_spawned():
        yield
        return
    family = hashlib.blake2b(multiprocessing.current_process().authkey, digest_size=16).hexdigest()
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0stomp-gateway-{family}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SecondWorker from None
            raise
        yield


class ParentGone(Exception):
    """The server's parent process has ended without stopping its worker."""


async def watch_parent() -> None:
    """Wait for the end of the parent process; without one, for ever.  Raises ParentGone: the parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        await trio.sleep_forever()
    else:
        await trio.lowlevel.wait_readable(parent.sentinel)
        raise ParentGone("the process that started this worker has ended, so nothing could stop the worker any more")
