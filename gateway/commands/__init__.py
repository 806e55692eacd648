"""Commands that are clients: `gateway send`, `gateway subscribe`, `gateway top`.

They know of a gateway what any client may know, and so work with every STOMP server, `top` excepted.
"""
