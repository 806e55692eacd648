"""Tests of gateway/broker/routing."""
