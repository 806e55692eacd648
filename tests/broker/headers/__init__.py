"""Tests of gateway/broker/headers."""
