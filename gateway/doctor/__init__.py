"""`gateway doctor`: what is wrong with a gateway and the proxy in front of it, and the setting that mends it.

    outside   finding <- places, dial <- http, websocket, stomp          how one talks to it
                                 doors, pages, upgrades, sessions, silence   what is looked at, as a client sees it
    inside    processes, rights <- machine; nginx                        files, ports and limits of this machine
    examine   the order of it all; command: the options

From outside it is a client like others: what it says of a proxy it has seen happen.  From inside it reads: the
settings, /proc, the rights of files, a configuration of nginx.  Nothing is changed anywhere; of the gateway it uses one
temporary topic, which goes with its session.  Every wait is bounded, and no wait hangs on what a peer sends.

A check that cannot go on raises `Trouble`, which is a finding in the making.  What a peer says is shown cut and without
control octets (`shown`), and what the operator shows to log in is never part of a sentence, nor sent to a server whose
certificate did not hold.
"""
