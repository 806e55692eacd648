"""`format("stomp")` for Spark: read and write the destinations of any STOMP server.

Spark looks for packages named `pyspark_*` and takes their `DefaultSource`, so nothing has to be registered:

    spark.readStream.format("stomp").options(destination="/queue/orders", spoolDir="/var/spool/orders").load()
"""

from .source import DefaultSource

__all__ = ["DefaultSource"]
