"""As `tests/transports/test_closing.py`."""

from tests.transports.test_closing import *  # noqa: F403 - tests, and their fixtures
