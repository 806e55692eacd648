"""Tests of gateway/broker/queue."""
