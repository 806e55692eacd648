"""The benchmarks: how many microseconds of server CPU one message costs.

`python -m benchmarks` (or `make bench`) starts the gateway on one core, drives it from another over loopback, checks
every delivery, and prints one row per scenario beside its budget.  The method, and why it is this one, is in
`docs/benchmarks.md`; the modules are, from the bottom up:

* `wire`       bytes: frames pre-encoded for TCP or WebSocket, and what arrives cut into frames again
* `link`       one client connection, non-blocking, and the check of what it receives
* `loop`       the closed loop: publishers and receivers, a window, a measured part, an end without loss or duplicate
* `machine`    cores, what the generator's process needs, and what the kernel alone takes
* `server`     the gateway as a child process, pinned, with its CPU and memory read from /proc
* `cluster`    the gateway as the primary of a cluster, with NATS servers and a standby
* `stage`      what scenarios set up and clear away
* `syncs`      how often the server waits for the disk, by strace
* `scenarios`  what is measured, as functions: the ways of a message; in `growth` the costs that must not grow, in
               `features` those of selectors, groups, priorities, delays and conflation, in `durable` those of the store
* `catalogue`  the rows: their parameters, budgets and peers
* `report`     the medians, the table, the JSON file
"""
