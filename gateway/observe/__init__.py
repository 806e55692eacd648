"""What an operator sees of the gateway: logs and metrics.

Both read; neither changes anything.  The broker knows nothing of either: it counts in plain integers, and the
collector reads them when somebody asks.
"""
