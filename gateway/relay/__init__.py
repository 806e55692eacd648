"""`gateway relay`: takes messages from one STOMP server and gives them to another, in a process of its own.

    settings    what is relayed from where to where, out of the command line or a file
    headers     what becomes of a message on its way
    link        a connection that comes back
    pump        one link to each side, and what goes through them
    status      what it has done, and how it is; metrics, http: who is told of that
    command     the process: threads, signals, status

It knows of the servers what any client may know, and so works with every STOMP server that speaks 1.1 or 1.2.
"""
