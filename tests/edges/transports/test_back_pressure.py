"""As `tests/transports/test_back_pressure.py`."""

from tests.transports.test_back_pressure import *  # noqa: F403 - tests, and their fixtures
