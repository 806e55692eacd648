"""What the tests of the pipeline share: the one Spark session."""

from tests.spark import spark

__all__ = ["spark"]
