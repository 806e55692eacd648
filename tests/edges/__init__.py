"""Tests of `gateway/edges`: both ends of a link in one process, over a pipe in memory."""
