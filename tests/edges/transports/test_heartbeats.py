"""As `tests/transports/test_heartbeats.py`."""

from tests.transports.test_heartbeats import *  # noqa: F403 - tests, and their fixtures
