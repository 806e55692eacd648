"""The STOMP server that a job sends to, from the command line: stomp://user@host:port/topic/name, `stomps` for TLS.

The password stands in the environment, in GATEWAY_PIPELINE_PASSCODE, because each user of the machine can read command
lines.  Executors on other machines need it in their environments, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from gateway.client import Client, StompError, StompServer
from gateway.client.server import read_url

from .errors import JobFailure, UsageFailure

PASSCODE = "GATEWAY_PIPELINE_PASSCODE"


@dataclass(frozen=True)
class BrokerUrl:
    """A server and the login there."""

    host: str
    port: int
    login: str = ""  # "": none
    tls: bool = False
    destination: str = ""  # the path after the port; "": none

    @classmethod
    def of(cls, url: str) -> BrokerUrl:
        """Read a URL.  `UsageFailure`: it is no URL of a STOMP server, or has a password in it."""
        try:
            server, destination = read_url(url, PASSCODE)
        except ValueError as error:
            raise UsageFailure(str(error)) from None
        return cls(server.host, server.port, server.login, server.tls, destination)

    def __str__(self) -> str:
        """The URL without the login."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'stomps' if self.tls else 'stomp'}://{host}:{self.port}"

    def options(self) -> dict[str, str]:
        """The options of `format("stomp")` for server and login, without a destination."""
        told = {"host": self.host, "port": str(self.port), "ssl": str(self.tls).lower(), "login": self.login}
        return told | {"passcodeEnv": PASSCODE} if os.environ.get(PASSCODE) else told

    def check(self) -> str:
        """The name of the server, by one connection.  `JobFailure`: it does not answer, or refuses the login."""
        passcode = os.environ.get(PASSCODE, "")
        try:
            client = Client(StompServer(self.host, self.port, tls=self.tls, login=self.login, passcode=passcode))
        except StompError as error:
            raise JobFailure(str(error)) from None
        client.disconnect()
        return client.server
