"""Session: a connected client, with its frames, subscriptions and transactions."""
