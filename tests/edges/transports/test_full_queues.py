"""As `tests/transports/test_full_queues.py`."""

from tests.transports.test_full_queues import *  # noqa: F403 - tests, and their fixtures
