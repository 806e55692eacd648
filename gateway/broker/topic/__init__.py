"""Topic: copies for subscribers, retained messages, durable subscriptions, streams."""
