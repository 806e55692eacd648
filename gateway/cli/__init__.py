"""Commands of `gateway`."""
