"""Logs, metrics, samples and traces of a gateway, read from the counters of the broker."""
