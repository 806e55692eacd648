"""Core: what queues, topics and sessions share: scheduler, counters, storage, authorization."""
