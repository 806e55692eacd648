"""Kills of a push: gateway, push and endpoint end by SIGKILL in turn, while messages are sent.

    python -m tests.push.kills --rounds 100

Nothing confirmed is lost: the endpoint gets each message.  It may get one twice, with the same `webhook-id`.  A
publisher that lost its connection sends again with the same `dedup-id`, so the gateway has each message once.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.client import Client, StompError, StompServer
from tests.gateway_process import HOST, GatewayProcess, free_ports

QUEUE = "/queue/work"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GROUP, GROUPS = 10, 10  # messages with one RECEIPT, and such groups in a round
_PATIENCE = 120.0
_LONGEST = 0.3  # seconds from the first message that the endpoint gets in a round to the kill
_TOML = f"""
[[policy]]
match = "{QUEUE}"
max_attempts = 0
backoff = 0.05
backoff_max = 0.5
"""


@dataclass(frozen=True)
class KillResult:
    """What came of the rounds, in messages."""

    rounds: int
    sent: int
    received: int  # requests
    doubles: int
    lost: int
    ids: int  # messages with more than one webhook-id
    unsigned: int
    dead: int

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.ids or self.unsigned or self.dead)


class Scene:
    """The three processes, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes = folder / "endpoint.notes"
        (self._port,) = free_ports(1)
        (folder / "gateway.toml").write_text(_TOML)
        (folder / "push.secret").write_text(SECRET + "\n")
        self.gateway = GatewayProcess(folder, {"store": f"sqlite:{folder}/store.db"})
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        if name == "gateway":
            self.gateway.start()
            return
        url = f"http://{HOST}:{self._port}/hook"
        server = ["--server", f"stomp://{HOST}:{self.gateway.tcp_port}", "--secret-file", "push.secret"]
        push = ["tests.push.impatient", "push", *server, "--allow-private", QUEUE, url]
        endpoint = ["tests.push.endpoint", str(self._port), str(self._notes), SECRET]
        with (self._folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *(push if name == "push" else endpoint)],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        if name == "gateway":
            self.gateway.kill()
            return
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        self.gateway.kill()

    def received(self) -> dict[str, list[str]]:
        """Body -> the ids of its requests; unsigned ones have none."""
        found: dict[str, list[str]] = {}
        text = self._notes.read_text() if self._notes.exists() else ""
        for line in text.splitlines():
            note = json.loads(line)
            found.setdefault(note["body"], []).append(note["id"] if note["signed"] else "")
        return found

    def size(self) -> int:
        """Bytes of the endpoint's notes."""
        return self._notes.stat().st_size if self._notes.exists() else 0

    def dead(self) -> int:
        """Messages in the dead-letter queue."""
        client = Client(self._server)
        lines = {"id": "0", "destination": "/queue/dlq.work", "browser": "true"}
        client.request("SUBSCRIBE", lines)
        count, is_over = 0, False
        while not is_over:
            for frame in client.receive(0.2):
                is_over = frame.headers.get("browser") == "end"
                count += not is_over
        client.disconnect()
        return count

    @property
    def _server(self) -> StompServer:
        return StompServer(HOST, self.gateway.tcp_port)

    def send(self, bodies: list[str]) -> None:
        """Send messages with one RECEIPT, until it has come."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                client = Client(self._server)
                for body in bodies:
                    lines = {"destination": QUEUE, "persistent": "true", "dedup-id": body}
                    if body is not bodies[-1]:
                        client.send(client.encode("SEND", lines, body.encode()))
                client.request("SEND", lines, body.encode())
                client.disconnect()
            except StompError:
                assert time.monotonic() < deadline, "the gateway does not come back"
                time.sleep(0.05)
            else:
                return


def run(rounds: int, folder: Path, tell: Callable[[str], None] = lambda line: None) -> KillResult:
    """Kill in so many rounds, wait for all messages, and count."""
    scene, sent = Scene(folder), 0
    names = ("push", "gateway", "endpoint")
    try:
        for name in ("gateway", "endpoint", "push"):
            scene.start(name)
        for number in range(rounds):
            victim = names[number % len(names)]
            killer = threading.Thread(target=_kill, args=(scene, victim))
            killer.start()
            for _ in range(GROUPS):
                scene.send([str(sent + each) for each in range(GROUP)])
                sent += GROUP
            killer.join()
            tell(f"round {number + 1}: killed {victim}; {sent} sent, {len(scene.received())} received")
        _wait(scene, sent)
        return _counted(scene, rounds, sent)
    finally:
        scene.end()


def _kill(scene: Scene, victim: str) -> None:
    """Kill while messages are under way: all three have started again since the last kill."""
    before, deadline = scene.size(), time.monotonic() + _PATIENCE
    while scene.size() == before and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(random.uniform(0, _LONGEST))
    scene.kill(victim)
    scene.start(victim)


def _wait(scene: Scene, sent: int) -> None:
    """Wait until all is received, or nothing has come for a long time."""
    count, deadline = 0, time.monotonic() + _PATIENCE
    while count < sent and time.monotonic() < deadline:
        now = len(scene.received())
        if now > count:
            count, deadline = now, time.monotonic() + _PATIENCE
        time.sleep(0.2)


def _counted(scene: Scene, rounds: int, sent: int) -> KillResult:
    found = scene.received()
    requests = sum(map(len, found.values()))
    return KillResult(
        rounds,
        sent,
        requests,
        doubles=requests - len(found),
        lost=sum(str(number) not in found for number in range(sent)),
        ids=sum(len(set(ids)) > 1 for ids in found.values()),
        unsigned=sum(ids.count("") for ids in found.values()),
        dead=scene.dead(),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill gateway, push and endpoint in turn.")
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="push-kills-") as folder:
        result = run(rounds, Path(folder), lambda line: print(line, flush=True))
    print(result)
    return 0 if result.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
