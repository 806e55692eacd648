"""Admin API: health, metrics, the API and the console, over HTTP.

Endpoints read the gateway through its synchronous methods, on the gateway's own thread.  So no request waits for a
lock, and none sees the broker in the middle of a change.
"""
