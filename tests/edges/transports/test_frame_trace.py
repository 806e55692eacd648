"""As `tests/transports/test_frame_trace.py`."""

from tests.transports.test_frame_trace import *  # noqa: F403 - tests, and their fixtures
