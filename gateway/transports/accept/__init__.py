"""Accept: listeners, and what happens to a connection before STOMP begins."""
