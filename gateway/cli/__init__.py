"""Command line: the command `gateway`; a module for each of its commands."""
