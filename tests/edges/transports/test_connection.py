"""As `tests/transports/test_connection.py`."""

from tests.transports.test_connection import *  # noqa: F403 - tests, and their fixtures
