"""Edges: processes that own the clients' sockets, and the one process that decides, the primary.

    client <-- TCP, WebSocket, TLS --> edge <------- one link -------> primary: the broker
                                       framing, login, heart-beats,    sessions, queues, topics, the store,
                                       upgrades, `send()`              limits of all edges together

An edge runs `gateway/transports` as a gateway without edges does: the connection loop, its writer, its timers.  Only
its sessions are `EdgeSession`s: they put the frames of a client on the link, and take from it what the primary has for
the client.  The primary has a real `Session` for each, whose carrier is a `RemoteConnection`.  So the broker knows
nothing of edges, and each promise of it holds.

    forms        the messages of the link: their kinds, and values as plain fields
    pipe         messages in batches, on any pipe of `gateway/transports/wire`
    session      a session at its edge; `holdings` says what it has at the primary
    link         the edge's end: `EdgeLink` sends batches, and gives sessions what comes
    edge         `EdgeServer`: the server of `gateway/transports` whose sessions are at a primary
    remote       a session's connection, as the primary sees it: turns, blocks, the end
    logins       tickets and failed logins, of all edges together
    primary      the primary's end: `PrimaryLink` carries out messages
    tls          links between machines

The link is read in batches and written in batches.  What many sessions of one edge get in one turn goes over once
(`WRITE`), and a run of frames with one header block has that block once (`HEAD`, `RUN`).

Accounts.  An outbox is at the primary, in full: what the edge has of it counts until the edge has handed it to the
socket (`WROTE`).  The edge tells that with its next batch, or a few milliseconds later, and at once where the primary
asks (`ASK`), for something waits for room: so a lone message wakes the primary once and not twice.  So marks, slow
consumers and memory are as without edges.  A publisher that must wait is not read any more by its edge (`HOLD`, `GO`);
what had been read before that is bounded (`session.WINDOW`), and waits at the primary.

Ends.  A session ends when its client leaves (`LEFT`), by the edge (`FAIL`), or by the primary (`END`, `FAILED`).  In
each case the primary has the last word in the outbox, and says so (`DONE`); then the edge writes what it has, and
closes.  A link that breaks ends all its sessions, and no client has failed: no attempt is counted.  Where the edge is
on another machine, those that only listen to topics wait for the next primary and move there (`holdings`).
"""
