"""Session: a connected client: its frames, subscriptions and transactions."""
