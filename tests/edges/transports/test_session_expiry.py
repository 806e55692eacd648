"""As `tests/transports/test_session_expiry.py`."""

from tests.transports.test_session_expiry import *  # noqa: F403 - tests, and their fixtures
