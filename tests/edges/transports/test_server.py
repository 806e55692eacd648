"""As `tests/transports/test_server.py`."""

from tests.transports.test_server import *  # noqa: F403 - tests, and their fixtures
