"""Answers that are streams of server-sent events; `events` is their common part."""
