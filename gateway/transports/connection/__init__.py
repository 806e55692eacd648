"""Connection: one client, from its first byte to its last."""
