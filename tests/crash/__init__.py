"""The crash test: a real gateway is killed again and again, and nothing that it promised may be missing.

A round is one store and a few lives of the gateway on it.  In each life producers and consumers work with receipts,
until the process is killed with SIGKILL: at a random moment, or by itself at a named point of a commit.  At the end one
more life gives out all that is left, and what was sent, receipted and seen is compared.

    books      what was sent, what was promised, what came: complaints at once where that contradicts
    wire       a small STOMP client
    logs       the same of topics with logs: their numbers, and what readers got
    load       producers, consumers, readers; movers, which acknowledge and send in one transaction
    plan       what a round is like: all of it follows from its seed, but for the timing
    points     where a gateway kills itself: patches, so that the product needs no hook for it
    server     the process: points first, then `gateway serve`
    process    that process, seen from outside
    torn       damage to the end of a write-ahead log, as a power cut leaves it
    figures    sums of many rounds
    disk       a disk that is full, and has room again
    crowd      the clients of one life, and what they notice of edges that are not theirs
    edges      edges of a gateway, seen from outside: their clients, their links
    acts       what happens to edges while their gateway lives: they are killed, stopped, hung, cut off
    edge_lies  lies of a gateway about its edges
    round      all that together
    cluster    the same with several gateways and their log

`make crash` runs many rounds; `make test` a few, and the full disk, and the lies: patches that break one promise of the
gateway each.  The test must find them, or it proves nothing.
"""
