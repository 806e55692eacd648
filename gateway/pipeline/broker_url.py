"""The STOMP server that a job sends to, from the command line: stomp://user@host:port/topic/name, `stomps` for TLS.

The password stands in the environment, in GATEWAY_PIPELINE_PASSCODE, because each user of the machine can read command
lines.  Executors on other machines need it in their environments, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from gateway.client import Client, StompError, StompServer
from gateway.client.server import read_url

from .errors import JobFailure, UsageFailure

PASSCODE = "GATEWAY_PIPELINE_PASSCODE"


@dataclass(frozen=True)
class BrokerUrl:
    """A server with the login there, and a destination."""

    server: StompServer
    destination: str = ""  # the path after the port; "": none

    @classmethod
    def of(cls, url: str) -> BrokerUrl:
        """Read a URL.  `UsageFailure`: it is no URL of a STOMP server, or has a password in it."""
        try:
            return cls(*read_url(url, PASSCODE))
        except ValueError as error:
            raise UsageFailure(str(error)) from None

    def __str__(self) -> str:
        """The URL without the login."""
        server = self.server
        host = f"[{server.host}]" if ":" in server.host else server.host
        return f"{'stomps' if server.tls else 'stomp'}://{host}:{server.port}"

    def options(self) -> dict[str, str]:
        """The options of `format("stomp")` for server and login, without a destination."""
        server = self.server
        told = {"host": server.host, "port": str(server.port), "ssl": str(server.tls).lower(), "login": server.login}
        return told | {"passcodeEnv": PASSCODE} if os.environ.get(PASSCODE) else told

    def check(self) -> str:
        """The name of the server, by one connection.  `JobFailure`: it does not answer, or refuses the login."""
        try:
            client = Client(replace(self.server, passcode=os.environ.get(PASSCODE, "")))
        except StompError as error:
            raise JobFailure(str(error)) from None
        client.disconnect()
        return client.server
