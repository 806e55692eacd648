"""Tests of gateway/broker/session."""
