"""A check of Spark itself: a session, a Python worker, and one micro-batch of `format("stomp")`.

    python -m gateway.pipeline.spark.spark_check

It is a process of its own, so that the caller can stop waiting.  Each step that succeeds is a line of JSON on standard
output, `{"step": ..., "detail": ...}`; the first that fails is the last line, with `"reason"` instead.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import PipelineFailure
from .session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("session", "Python worker", "micro-batch")

_MESSAGES = 3
_RECEIPT = re.compile(rb"\nreceipt:([^\n]+)")
_SUBSCRIBE = re.compile(rb"\s*SUBSCRIBE\nid:([^\n]+)")
_NAMED = re.compile(r"[A-Za-z_][\w.$]*(?:Error|Exception)\b")
_PATIENCE = 120.0  # seconds for the query, and for a client that sends nothing


def main() -> int:
    """Try one step after the other; returns the exit status."""
    started = time.monotonic()
    step = STEPS[0]
    try:
        spark = session(None, None, "gateway pipeline doctor")
        _tell(step, detail=f"Spark {spark.version} after {time.monotonic() - started:.1f} s")
        steps: list[Callable[[SparkSession], str]] = [_worker, _micro_batch]
        for step, attempt in zip(STEPS[1:], steps, strict=True):
            _tell(step, detail=attempt(spark))
        spark.stop()
    except PipelineFailure as error:
        _tell(step, reason=str(error))
        return error.status
    except Exception as error:  # noqa: BLE001  # any error is the answer of the check
        _tell(step, reason=_reason(error))
        return 1
    return 0


def _reason(error: Exception) -> str:
    """One line: the exception of a Python worker stands last in Spark's text, behind those of Java."""
    lines = [line.strip(" :") for line in str(error).splitlines()]
    named = [line for line in lines if _NAMED.match(line)]
    return (named or [line for line in lines if line] or [repr(error)])[-1 if named else 0][:300]


def _tell(step: str, **words: str) -> None:
    sys.stdout.write(json.dumps({"step": step, **words}) + "\n")
    sys.stdout.flush()


def _worker(spark: SparkSession) -> str:
    from pyspark.sql.functions import udf

    def interpreter(_: int) -> str:
        import pyarrow

        return f"Python {sys.version.split()[0]} with pyarrow {pyarrow.__version__}"

    [(told,)] = spark.range(1).select(udf(interpreter, "string")("id")).collect()
    return str(told)


def _micro_batch(spark: SparkSession) -> str:
    """Send some messages through the source, which Spark finds by its name alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        options = {"host": "127.0.0.1", "port": str(server.getsockname()[1]), "destination": "/queue/doctor"}
        frame = spark.readStream.format("stomp").options(**options, mode="ack", idleTimeoutMs="500").load()
        query = frame.writeStream.format("memory").queryName("doctor").trigger(availableNow=True).start()
        try:
            if not query.awaitTermination(int(_PATIENCE)):
                raise RuntimeError("TimeoutError: the query does not end")
        finally:
            query.stop()
    rows = spark.table("doctor").count()
    if rows != _MESSAGES:
        raise RuntimeError(f"ValueError: {rows} rows came of {_MESSAGES} messages")
    return f'{rows} messages through format("stomp")'


def _serve(server: socket.socket) -> None:
    """Answer one client until it goes: CONNECT, its receipts, and some messages to its subscription."""
    connection, _ = server.accept()
    connection.settimeout(_PATIENCE)
    received = b""
    with connection:
        while chunk := connection.recv(65_536):
            *frames, received = (received + chunk).split(b"\0")
            answer = b""
            for frame in frames:
                if frame.lstrip().startswith(b"CONNECT\n"):
                    answer += b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"
                if receipt := _RECEIPT.search(frame):
                    answer += b"RECEIPT\nreceipt-id:%s\n\n\0" % receipt[1]
                if subscription := _SUBSCRIBE.match(frame):
                    answer += b"".join([_message(subscription[1], number) for number in range(_MESSAGES)])
            connection.sendall(answer)


def _message(subscription: bytes, number: int) -> bytes:
    head = b"MESSAGE\nsubscription:%s\nmessage-id:m-%d\nack:%d\ndestination:/queue/doctor\n\n"
    return head % (subscription, number, number) + b"ok\0"


if __name__ == "__main__":
    sys.exit(main())
