"""What Spark makes of the archive: tables, reports, replays.

Nothing of the gateway imports this package but its command line, and that imports nothing heavy: pyspark, pyarrow and
pandas are imported inside functions, so that `gateway --help` needs none of them.
"""
