"""The tests of the gateway.  A package, so that every part imports `tests.gateway_process` by one name."""
