"""Headers: the table of all headers that the gateway knows, the readers of frames by it, and CONNECT."""
