"""The HTTP side: health, metrics, admin API, and the demo page.

Everything here reads the gateway through its synchronous methods, on the gateway's own thread; no request
waits for a lock, and none can see the broker half changed.
"""
