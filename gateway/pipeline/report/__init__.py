"""The report: the traffic between two moments, as one HTML file.

build.report(spark, archive, since, until)  -> figures.Report   Spark and Arrow count the archive
page.page_of(report)                        -> str              sections, with `html`, `chart` and `formats`
csv_files.write(report, folder)                                 the same figures as CSV files
"""
