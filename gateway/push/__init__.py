"""`gateway push`: POSTs the messages of queues to URLs, in a process of its own.

    settings    servers, queues and URLs, from the command line or a file
    signature   the secrets of a URL, and what they sign
    addresses   the addresses that may be connected to
    dialing     connections to them
    request     the HTTP request that a message becomes, and the meaning of its answer
    endpoint    a URL: requests, and pauses while it fails
    consumer    the messages of one queue, from the server to the endpoint
    monitoring  counts and state, and pages that show them
    running     the process: tasks and signals
    command     its command line

It uses nothing but STOMP and HTTP, and so works with other STOMP servers too.
"""
