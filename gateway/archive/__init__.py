"""The archive: the rows of the journal as Parquet files, which Spark reads.

    journal  --archiver-->  raw/      what streams watch; goes after some days
    raw/     --compact-->   history/  what reports and replay read; few files, sorted

`layout` and `history` know where everything is and need the standard library alone.  `schema`, `columns`, `parts`,
`archiver` and `compact` need pyarrow and numpy, and so nothing is imported here.
"""
