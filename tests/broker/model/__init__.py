"""Tests of gateway/broker/model."""
