"""Conformance: every statement of REQUIREMENTS.md shown per version and, where it binds the transport, over sockets.

    pytest tests/conformance                        the tests
    pytest tests/conformance --conformance-table    and the table: a row per requirement, a column per version
                                                    and transport
    pytest tests/conformance -k 1.1-core            one column

Statements about the meaning of frames are shown on the broker in this process (`core`), those about connections on a
gateway that is a process of its own.  A test names the requirements that it shows, and from their rows follows for
which versions and transports it runs; it also fails by anything in the server's octets that the version's grammar does
not have (`wire`).  Where the specifications leave a choice, the tests hold the gateway to the one it has made.

Silence is not waited for.  To show that a message does not come, a later one is sent the same way and must be the
next to arrive (`Peer.seen`); to show what a lost connection leaves behind, the test waits for a message that the
lost one held (`Scene.end`).  Only heart-beats are measured in time.
"""
