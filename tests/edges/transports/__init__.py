"""The tests of `tests/transports` once more, with all clients at edges: the results are the same."""
