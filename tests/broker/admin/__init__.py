"""Tests of gateway/broker/admin."""
