"""Tests of gateway/broker/core."""
