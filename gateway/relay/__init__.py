"""`gateway relay`: takes messages from one STOMP server and sends them to another, in a process of its own.

    settings    servers and routes, from the command line or a file
    link        a connection that reconnects
    pump        one link to each server, the messages between them, and their headers
    monitoring  counts and state, and pages that show them
    command     the process: threads and signals

It uses nothing but STOMP, and so works with every server that speaks 1.1 or 1.2.
"""
