"""A users file that changes below a real server process, which is told so by SIGHUP, as clients see it."""

from __future__ import annotations

import os
import queue
import signal
from pathlib import Path
from typing import Any

import stomp
from stomp.utils import Frame

from gateway.auth import passwords
from tests.app.process import SERVE, server

PATIENCE = 20.0
RULE = """
[[policy]]
match = "/queue/#"
add_user_id = true

[[rule]]
destination = "/queue/**"
groups = ["ops"]
allow = ["send", "subscribe"]
"""


class Listener(stomp.ConnectionListener):
    """What a client gets."""

    def __init__(self) -> None:
        self.all: queue.Queue[tuple[str, Frame]] = queue.Queue()

    def on_message(self, frame: Frame) -> None:
        self.all.put(("MESSAGE", frame))

    def on_error(self, frame: Frame) -> None:
        self.all.put(("ERROR", frame))

    def next(self, command: str) -> Frame:
        found, frame = self.all.get(timeout=PATIENCE)
        assert found == command, frame
        return frame


def dial(port: int, login: str) -> tuple[Any, Listener]:
    connection = stomp.Connection12([("127.0.0.1", port)], reconnect_attempts_max=1)
    listener = Listener()
    connection.set_listener("", listener)
    connection.connect(login, f"passcode of {login}", wait=True)
    return connection, listener


def test_users_who_leave(tmp_path: Path) -> None:
    users = tmp_path / "users"
    for login in ("ada", "bob", "eve"):
        passwords.write_user(users, login, passwords.hash_passcode(f"passcode of {login}"), ["ops"])
    (tmp_path / "gateway.toml").write_text(RULE)
    with server(SERVE, tmp_path, users_file=str(users), login_delay="0") as running:
        port = running.tcp_port()
        ada, of_ada = dial(port, "ada")
        bob, of_bob = dial(port, "bob")
        _, of_eve = dial(port, "eve")
        bob.subscribe("/queue/a", id="1")
        ada.send("/queue/a", "one")
        assert of_bob.next("MESSAGE").headers["user-id"] == "ada"

        text = users.read_text()
        (changed,) = [line for line in text.splitlines() if line.startswith("bob:")]
        passwords.write_user(users, "eve", passwords.hash_passcode("another"))
        users.write_text(changed + "\n" + "\n".join(each for each in users.read_text().splitlines() if "eve" in each))
        os.kill(running.process.pid, signal.SIGHUP)
        assert of_ada.next("ERROR").headers["message"] == "user removed"
        assert of_eve.next("ERROR").headers["message"] == "passcode changed"

        passwords.write_user(users, "bob", changed.split(":")[1], [])
        os.kill(running.process.pid, signal.SIGHUP)
        assert of_bob.next("ERROR").headers["message"] == "access refused"
        told = [event for event in running.events() if event["event"] in ("login revoked", "groups changed")]
        assert [(event["login"], event.get("reason")) for event in told] == [
            ("ada", "user removed"),
            ("eve", "passcode changed"),
            ("bob", None),
        ]
        for connection in (ada, bob):
            connection.disconnect()
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        assert "Traceback" not in running.log
