"""The tests of gateway/broker/selectors, with a second reading of the rules in `reference.py`."""
