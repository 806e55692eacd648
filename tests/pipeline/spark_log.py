"""What Spark writes of its plans into the checkpoint of a job."""

from __future__ import annotations

import json
from pathlib import Path


class SparkLog:
    """The looks and the plans of a checkpoint; `raw`: the URI of the folder with the files."""

    def __init__(self, checkpoint: Path, raw: str = "file:///a%20b/raw") -> None:
        self.checkpoint = checkpoint
        self._raw = raw
        self._entries: list[str] = []
        for folder in ("sources/0", "offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True)

    def look(self, number: int, *names: str, compact: bool = False) -> None:
        """A look that has found files."""
        new = [json.dumps({"path": f"{self._raw}/{name}", "timestamp": 1, "batchId": number}) for name in names]
        self._entries += new
        name, lines = (f"{number}.compact", self._entries) if compact else (str(number), new)
        self._write(f"sources/0/{name}", *lines)

    def plan(self, batch: int, last: int) -> None:
        """A batch up to some look."""
        self._write(f"offsets/{batch}", '{"batchWatermarkMs":0}', json.dumps({"logOffset": last}))

    def commit(self, batch: int) -> None:
        self._write(f"commits/{batch}", '{"nextBatchWatermarkMs":0}')

    def _write(self, name: str, *lines: str) -> None:
        path = self.checkpoint / name
        path.write_text("\n".join(["v1", *lines]))
        path.with_name(f".{path.name}.crc").write_bytes(b"\0")
