"""The STOMP server that a job sends to, as the command line names it: stomp://user@host:port/topic/name

`stomps` is the same by TLS.  Without a port it is 61613, without a user nobody logs in.  A password stands in the
environment, in GATEWAY_PIPELINE_PASSCODE: whatever is on a command line can be read by everybody on the machine.  Where
the executors are other machines, theirs must have it, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from gateway.client import Client, Server, StompError
from gateway.client.server import read_url

from .errors import JobFailure, UsageFailure

PASSCODE = "GATEWAY_PIPELINE_PASSCODE"


@dataclass(frozen=True)
class BrokerUrl:
    """A server and who we are there.

    Attributes:
        login: "": nobody.
        destination: what stands behind the port; "": nothing.
    """

    host: str
    port: int
    login: str = ""
    tls: bool = False
    destination: str = ""

    @classmethod
    def of(cls, url: str) -> BrokerUrl:
        """Read a URL.

        Raises:
            UsageFailure: it is none of a STOMP server, or has a password in it.
        """
        try:
            server, destination = read_url(url, PASSCODE)
        except ValueError as error:
            raise UsageFailure(str(error)) from None
        return cls(server.host, server.port, server.login, server.tls, destination)

    def __str__(self) -> str:
        """The URL without who we are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'stomps' if self.tls else 'stomp'}://{host}:{self.port}"

    def options(self) -> dict[str, str]:
        """Those of `format("stomp")` that say where to and who, and no destination."""
        told = {"host": self.host, "port": str(self.port), "ssl": str(self.tls).lower(), "login": self.login}
        return told | {"passcodeEnv": PASSCODE} if os.environ.get(PASSCODE) else told

    def check(self) -> str:
        """Connect once, so that a wrong password is told at once and in few words; returns what the server is.

        Raises:
            JobFailure: it does not answer, or does not let us in.
        """
        passcode = os.environ.get(PASSCODE, "")
        try:
            client = Client(Server(self.host, self.port, tls=self.tls, login=self.login, passcode=passcode))
        except StompError as error:
            raise JobFailure(str(error)) from None
        client.disconnect()
        return client.server
