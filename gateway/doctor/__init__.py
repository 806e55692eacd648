"""`gateway doctor`: checks of a gateway and of the proxy in front of it, with the setting that removes each fault.

    model                targets, options, results
    clients              HTTP, WebSocket and STOMP clients on h11, wsproto and gateway.codec
    connection_checks    TCP, TLS, certificates, PROXY headers       \
    http_checks          health, clocks, tokens, the admin API        as a client sees them
    stomp_checks         upgrade, login, messages, silence           /
    machine_checks       ports, files, limits, settings              \
    nginx_checks         a configuration of nginx                    / as files and /proc show them
    command              the options of the command, and the order of the checks

The doctor changes nothing.  It uses one temporary topic, which ends with its session.  Every wait has a limit.  A check
that cannot go on raises `Problem`, which becomes a line of the output.  Text of a peer is cut and freed of control
characters (`printable`).  Passcodes and tokens are never printed, nor sent to a server with a certificate that does not
hold.
"""
