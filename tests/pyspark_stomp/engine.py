"""What Spark does with a source and a sink, micro-batch by micro-batch, without Spark: half a second instead of ten.

The order is Spark's, and it is what windows are about: ask for the end of the next batch, write down where it ends, let
the reader commit the batch before, plan, read, write, write down that it is done.  At the start a batch that is written
down and not done is run again as it was.

    python -m tests.pyspark_stomp.engine CONFIG

runs the first query of CONFIG (see `queries`) until its window.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_stomp import sink
from pyspark_stomp.offset_stream import OffsetStreamReader
from pyspark_stomp.options import Options
from pyspark_stomp.stream import StoreStreamReader
from tests.pyspark_stomp.queries import Query, texts, write_file
from tests.pyspark_stomp.windows import Window

_ROWS = 100


class Engine:
    def __init__(self, query: Query, folder: Path, window: Window | None = None) -> None:
        self._query = query
        self._folder = folder
        self._window = window
        self._log = folder / f"engine-{query.name}"
        options = Options.of(query.told(folder, _ROWS))
        options.check_stream()
        self._reader = (OffsetStreamReader if query.mode == "offset" else StoreStreamReader)(options, ["body"])

    def run(self) -> None:
        if self._window is not None:
            self._window.install()
        self._log.mkdir(exist_ok=True)
        ends = [json.loads((self._log / f"{number}.offset").read_text()) for number in range(self._count("offset"))]
        start = ends[-1] if ends else self._reader.initialOffset()
        if len(ends) > self._count("done"):
            self._batch(len(ends) - 1, ends[-2] if len(ends) > 1 else self._reader.initialOffset(), start)
        self._reader.prepareForTriggerAvailableNow()
        for number in itertools.count(len(ends)):
            end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
            if end == start:
                self._reader.stop()
                return
            self._write_down(f"{number}.offset", json.dumps(end))
            if number:
                self._reader.commit(start)
            self._batch(number, start, end)
            start = end

    def _count(self, kind: str) -> int:
        return len(list(self._log.glob(f"[0-9]*.{kind}")))

    def _write_down(self, name: str, text: str) -> None:
        (self._log / "_").write_text(text)
        (self._log / "_").rename(self._log / name)

    def _batch(self, number: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        parts = self._reader.partitions(start, end)
        rows = (batch for part in parts for batch in self._reader.read(part))
        if self._write(number, rows) and self._window is not None and self._window.name == "done":
            self._window.reach()
        self._write_down(f"{number}.done", "")

    def _write(self, number: int, rows: Iterator[pa.RecordBatch]) -> int:
        if not self._query.files:
            options = Options.of({**self._query.where, "destination": self._query.target})
            return sink._write(sink.Plan(options, ["body"], ""), rows, self._query.name, str(number)).rows
        bodies = texts(rows)
        write_file(self._folder, self._query.name, number, bodies)
        return len(bodies)


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    query, folder = Query(**told["queries"][0]), Path(told["folder"])
    Engine(query, folder, Window(told["window"][1], folder / f"window-{query.name}")).run()


if __name__ == "__main__":
    main()
