"""The transports: pipes, links, the connection loop, listeners, and what hostile clients can do to them.

Where time matters the tests run on trio's autojump clock, which jumps to the next deadline as soon as nobody can go on:
no test sleeps for real.  Where the operating system matters they run on real sockets, over loopback.
"""
