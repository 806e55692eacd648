"""Attacks on a real gateway, and what stops each; `make attacks` measures what they cost a neighbour."""
