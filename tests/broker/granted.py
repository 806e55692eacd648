"""A stand-in for the rules: what somebody may do, written down in the test."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.patterns import Pattern

from .client import Client, Scene


class Granted:
    """An `Access`.

    `send, subscribe, admin, presence`: patterns of what is allowed; `some`: pattern that somebody subscribes to -> how
    much of it is allowed; of all others nothing.
    """

    def __init__(
        self,
        send: str = "",
        subscribe: str = "",
        admin: str = "",
        some: Mapping[str, Coverage] | None = None,
        presence: str = "",
    ) -> None:
        self.sendable: set[str] = set()
        self.answerable: set[str] = set()
        self.asked: list[tuple[Action, str]] = []  # what it was asked, in order
        self.asking: list[str] = []  # the options of the command that explains
        texts = {
            Action.SEND: send,
            Action.SUBSCRIBE: subscribe,
            Action.ADMIN: admin,
            Action.PRESENCE: presence,
        }
        self.allowed = {action: [Pattern(each) for each in text.split()] for action, text in texts.items()}
        self.some = dict(some or {})

    def may(self, action: Action, name: str) -> bool:
        self.asked.append((action, name))
        return any(pattern.matches(name) for pattern in self.allowed[action])

    def reach(self, pattern: str) -> Coverage:
        return self.some.get(pattern, Coverage.NONE)

    def options(self) -> list[str]:
        return self.asking

    def reason(self, action: Action, name: str) -> str:
        return f"{action.value} {name}"


def client_of(scene: Scene, granted: Granted, login: str = "alice", client_id: str = "") -> Client:
    """A client under rules."""
    named = f"login:{login}\n" if login else ""
    known = f"client-id:{client_id}\n" if client_id else ""
    client = scene.connect_by(f"CONNECT\naccept-version:1.2\nhost:localhost\n{named}{known}\n\0".encode())
    client.session.access = granted
    return client


def refused(client: Client) -> str:
    """The body of the ERROR that refuses access."""
    error = client.error()
    assert error.headers["message"] == "access refused"
    return error.body.decode()
