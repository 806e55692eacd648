"""The archive: the rows of the journal as Parquet files, which Spark reads.

    journal  --archiver-->  raw/      for streams; deleted after some days
    raw/     --compact-->   history/  for reports and replay; few files, sorted

`layout` and `history` know the files and need the standard library alone.  The other modules need pyarrow and numpy, so
nothing is imported here.
"""
