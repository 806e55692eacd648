"""Wire: bytes of one connection: sockets, TLS, PROXY headers, WebSocket frames."""
