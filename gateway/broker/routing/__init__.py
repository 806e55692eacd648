"""Routing: the way of a SEND to its destinations, and which destinations there are."""
