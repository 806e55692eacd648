"""Tests of gateway/broker/topic."""
