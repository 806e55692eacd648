"""The pipeline: tables, reports and replays out of the archive, by Spark.

    command       `gateway pipeline`, with options, paths, exits and errors
    jobs          what Spark computes; `tables` keeps the results
    streaming     runs the jobs batch by batch
    report        one HTML file
    replay        messages of the archive, sent again
    spark         Java, JVM, session, doctor

Commands import it, and pyspark, pyarrow and pandas, only when they run: `gateway --help` needs none of them.
"""
