"""Net: addresses of clients, and origins of pages."""
