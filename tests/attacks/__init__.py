"""Attacks on a real gateway, and what stops each.

    attacks     what hostile clients do, and the words by which the gateway must tell what stopped them
    siege       a gateway under attack: its memory, its log, and a neighbour who behaves well
    probe       in that gateway: how long its own turns are
    neighbour   that client, in a process of its own, because it measures time
    __main__    `make attacks`: all of them, again and again for a while, and what they cost the neighbour

`make test-all` runs each once and looks at words, memory and the neighbour's messages; times are for `make attacks`.
"""
