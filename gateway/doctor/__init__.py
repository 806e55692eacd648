"""`gateway doctor`: checks of a gateway and of the proxy in front of it, with the setting that removes each fault.

    model                targets, options, results
    clients              HTTP, WebSocket and STOMP clients on h11, wsproto and gateway.client.protocol
    *_checks             what a client sees (connection, http, stomp), what files and /proc show (machine, nginx)
    examine              the order of the checks
    command              the options of the command

The doctor changes nothing.  Every wait has a limit.  A check that cannot go on raises `Problem`, which becomes a line
of the output.  Text of a peer is cut and freed of control characters (`printable`).  Passcodes and tokens are never
printed, nor sent to a server with a certificate that does not hold.
"""
