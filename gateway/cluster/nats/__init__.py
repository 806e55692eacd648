"""A blocking client of NATS, as small as the log needs it.

    protocol      bytes to events and back, without I/O
    credentials   what a client shows the server: password, token, NKey, credentials file
    faults        why a server cannot be used, as sentences
    connection    one socket: TLS, requests and their answers
    jetstream     the streams of JetStream: append, read, purge, keys with a time to live

`nats-py` needs an event loop of its own: an append of 2,000 bytes costs 384 us of CPU with it, and 82 us here, for the
store works in a thread that may block.

Protocol: https://docs.nats.io/reference/reference-protocols/nats-protocol, and ADR-8, ADR-20, ADR-26, ADR-31, ADR-43 of
nats-architecture-and-design.
"""
