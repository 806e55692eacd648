"""As `tests/transports/test_memory_guard.py`."""

from tests.transports.test_memory_guard import *  # noqa: F403 - tests, and their fixtures
