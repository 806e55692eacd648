"""As `tests/transports/test_take_over.py`."""

from tests.transports.test_take_over import *  # noqa: F403 - tests, and their fixtures
