"""Several gateways as one: every commit goes into a replicated log, and another node takes over where one is lost.

The log and what is made of it
    records          the binary form of a commit
    log              the port of the log, and how one primary writes to it; `stream_log` is the one of JetStream
    replica          the file into which each node applies the log
    follower         reads the log and applies it, and makes a primary of the node
    store            the store of the primary: log first, then file
    snapshots        copies of the file in the object store; `snapshot_keeper` makes and fetches them
    bootstrap        the store of a single gateway becomes the first one

Which node decides
    directory        keys with a time to live: the lease, the nodes, the wish for a handover
    presence         what a node tells of itself, under a name that it alone has
    lease            renewed each second by a thread of its own
    term             the time of a node as primary, and how long each stage before it took
    node             standby until it wins the lease, then primary until it loses it

The servers of NATS
    servers          connections for each purpose; `preflight` refuses servers that cannot keep the promise
    room             what JetStream may store, and what of it is used
    survey           each server and each node asked by itself, for an outage
    nats             a small blocking client; `refusals` tells its errors as the cluster's
    rows             nodes and log as API and command show them
"""
