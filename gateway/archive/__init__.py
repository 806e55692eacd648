"""The archive: the rows of the journal as Parquet files, which Spark reads.

    journal  --archiver-->  raw/      for streams; deleted after some days
    raw/     --compact-->   history/  for reports and replay; few files, sorted

`layout` and `history` need the standard library alone, the other modules pyarrow: nothing is imported here.
"""
