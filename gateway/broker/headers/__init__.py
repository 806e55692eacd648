"""Headers: one table of all that the gateway knows, what reads frames by it, and the first frame."""
