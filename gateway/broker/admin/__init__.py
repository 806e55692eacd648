"""Administration: an operator's way to messages and lists."""
