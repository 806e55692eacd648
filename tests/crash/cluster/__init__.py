"""Crash test of a cluster: its parts are killed, stopped and cut off, and nothing that it promised may be missing.

A round is three machines in a network of their own, each with a server of NATS, two or three of them with a gateway,
which may have edges; and the clients of `tests.crash`.  Acts hit a victim in some way; meanwhile the clients work under
one primary after the other.  The time under one primary is a life of the books.

    plan       acts of a round: victims and ways, which follow from its seed
    nodes      the processes, and what an act does to them
    term       clients under one primary: when that is over, and what the old primary still says
    pages      clients that only listen, and do not notice that the primary is another one
    lies       patches that break one promise each
    checks     the log and the copies of the nodes, at the end
    round      all that together
    run        many rounds, some of them at a time

`make crash ARGS="--cluster --edges 2"` runs 200 rounds, some at a time; without `--edges` clients connect to the
primary.  Without network namespaces it says so, and fails.
"""
