"""A job that runs somewhere else: by spark-submit on a cluster, or as a client of Spark Connect.

Its argument is JSON: {"remote": address of Spark Connect or null, "where": options of the gateway, "queue": what it
moves to the queue of that name with `.out`, "folder": for spool and checkpoint, "pipeline": arguments of
`gateway pipeline`, which it runs afterwards, or null}.  It imports nothing of the tests: they are not there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gateway.pipeline.spark.session import session


def main() -> None:
    """Move the messages, and look at them where they are now; the last line says how many there are."""
    told = json.loads(sys.argv[1])
    spark = session(None, told["remote"], "tests")
    folder = Path(told["folder"])
    reading = spark.readStream.format("stomp").options(**told["where"], destination=told["queue"])
    source = reading.options(spoolDir=str(folder / "spool"), idleTimeoutMs="500").load()
    writer = source.writeStream.format("stomp").options(**told["where"], destination=told["queue"] + ".out")
    writer = writer.queryName("move").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    look = spark.read.format("stomp").options(**told["where"], destination=told["queue"] + ".out").load()
    print(look.count(), flush=True)
    if told["pipeline"]:
        from gateway.pipeline.command import pipeline

        pipeline(told["pipeline"], prog_name="gateway pipeline")
    spark.stop()


if __name__ == "__main__":
    main()
