"""Crash test of a cluster: its parts are killed, stopped and continued, and nothing that it promised may be missing.

A round is three servers of NATS, two or three gateways on them, and the clients of `tests.crash`.  Acts hit a victim in
some way; meanwhile the clients work under one primary after the other.  The time under one primary is a life of the
books.

    plan       acts of a round: victims and ways, which follow from its seed
    nodes      the processes, and what an act does to them
    term       clients under one primary: when that is over, and what the old primary still says
    lies       patches that break one promise each
    checks     the log and the copies of the nodes, at the end
    round      all that together

`make crash ARGS=--cluster` runs many rounds.  Partitions of the network are not among the ways yet: a way is an entry
of `plan.WAYS` and a method of `nodes.Cluster`.
"""
