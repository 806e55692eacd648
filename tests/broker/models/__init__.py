"""A second, simple broker, and random programs of clients that compare the two."""
