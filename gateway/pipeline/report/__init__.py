"""The report: what went through the gateways between two moments, as one HTML file that needs nothing else.

    report(spark, archive, since, until)  -> Report     `build`: Spark has the archive counted, and asks for the rest
    html(report)                          -> str        `page`: figures alone, no Spark and no archive
    csv(report, folder)                                 `sheets`: the same figures as CSV files

`figures` is what stands between them: dataclasses of plain numbers.  Below the page are `parts` (its sections), `svg`
(charts, which know nothing of messages), `markup` (elements; escapes whatever it is given) and `values` (numbers with
units).  `counts` is what Spark's workers do.  Only `build`, `census` and `consumers` need Spark, and only inside their
functions.
"""

from .build import report
from .figures import Report
from .page import html
from .sheets import csv

__all__ = ["Report", "csv", "html", "report"]
