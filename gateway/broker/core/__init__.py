"""Core, shared by queues, topics and sessions: scheduler, counters, storage, authorization."""
