"""structlog without rich.

structlog imports rich, if it is installed, for tracebacks that no log of ours has; that takes as long as the import of
the whole broker (85 ms of CPU).  So rich is hidden while structlog is imported, and is there for `gateway top`.  The
programs that log import structlog from here; the modules behind them get the same one.
"""

import sys

_HIDDEN = "rich"


def _hide() -> bool:
    """Make the import of rich fail; False: it is there already, and costs nothing."""
    if _HIDDEN in sys.modules:
        return False
    sys.modules[_HIDDEN] = None  # type: ignore[assignment]  # so an import of it is an ImportError
    return True


_is_hidden = _hide()
try:
    import structlog as structlog
finally:
    if _is_hidden:
        del sys.modules[_HIDDEN]
