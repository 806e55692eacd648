"""As `tests/transports/test_lease.py`."""

from tests.transports.test_lease import *  # noqa: F403 - tests, and their fixtures
