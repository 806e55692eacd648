"""As `tests/transports/test_slow_disk.py`."""

from tests.transports.test_slow_disk import *  # noqa: F403 - tests, and their fixtures
