"""The report: the traffic between two moments, as one HTML file.

report(spark, archive, since, until)  -> Report     `build`: Spark and Arrow count the archive
page_of(report)                       -> str        `page`: sections, with `html`, `chart` and `formats`
write(report, folder)                               `csv_files`: the same figures as CSV files
"""

from .build import report
from .csv_files import write
from .figures import Report
from .page import page_of

__all__ = ["Report", "page_of", "report", "write"]
