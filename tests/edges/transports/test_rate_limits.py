"""As `tests/transports/test_rate_limits.py`."""

from tests.transports.test_rate_limits import *  # noqa: F403 - tests, and their fixtures
