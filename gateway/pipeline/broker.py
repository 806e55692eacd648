"""The STOMP server that a job sends to, as the command line names it: stomp://user@host:port/topic/name

`stomps` is the same by TLS.  Without a port it is 61613, without a user nobody logs in.  A password stands in the
environment, in GATEWAY_PIPELINE_PASSCODE: whatever is on a command line can be read by everybody on the machine.  Where
the executors are other machines, theirs must have it, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from .errors import JobFailure, UsageFailure

PASSCODE = "GATEWAY_PIPELINE_PASSCODE"

_PORT = 61_613


@dataclass(frozen=True)
class Broker:
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
    def of(cls, url: str) -> Broker:
        """Read a URL.

        Raises:
            UsageFailure: it is none of a STOMP server, or has a password in it.
        """
        wrong = f"{url[:80]!r} names no STOMP server: write stomp://user@host:port"
        try:
            parts = urlsplit(url)
            port = parts.port or _PORT
        except ValueError:
            raise UsageFailure(wrong) from None
        if parts.password is not None:
            raise UsageFailure(f"a password must not stand in a URL, where others can see it: put it into {PASSCODE}")
        if parts.scheme not in ("stomp", "stomps") or not parts.hostname or parts.query or parts.fragment:
            raise UsageFailure(wrong)
        destination = "" if parts.path == "/" else unquote(parts.path)
        return cls(parts.hostname, port, unquote(parts.username or ""), parts.scheme == "stomps", destination)

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
        from pyspark_stomp.client import Client
        from pyspark_stomp.errors import StompError
        from pyspark_stomp.options import Options

        try:
            client = Client(Options.of(self.options()))
        except StompError as error:
            raise JobFailure(str(error)) from None
        client.disconnect()
        return client.server
