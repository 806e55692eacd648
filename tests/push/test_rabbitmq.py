"""With RabbitMQ: it has no back-off, so the process waits by itself, and a message keeps its id."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client import StompServer
from tests.gateway_process import HOST
from tests.logged_command import eventually
from tests.pyspark_stomp.rabbitmq import running_rabbitmq

from .endpoint import Got, running
from .pushing import pushing, send

pytestmark = pytest.mark.long


def test_taken_failed_and_refused(tmp_path: Path) -> None:
    left = {"fails": 1}

    def answering(got: Got) -> int:
        if got.body == b"bad":
            return 422
        if got.body == b"late" and left["fails"]:
            left["fails"] -= 1
            return 500
        return 204

    (tmp_path / "passcode").write_text("guest")
    (tmp_path / "rabbitmq").mkdir()
    with running_rabbitmq(tmp_path / "rabbitmq") as port, running(answering) as endpoint:
        table = f'[[push]]\nsource = "/queue/hooks"\nurl = "{endpoint.url}"\nallow_private = true\n'
        begin = f'server = "stomp://guest@{HOST}:{port}"\npasscode_file = "passcode"\nvhost = "/"\n'
        (tmp_path / "push.toml").write_text(begin + table)
        server = StompServer(HOST, port, login="guest", passcode="guest", vhost="/")
        with pushing(tmp_path, "--config", "push.toml") as push:
            push.wait_for("pushing")
            send(server, "/queue/hooks", "good", "bad", "late")
            eventually(lambda: endpoint.bodies.count(b"late") == 2, lambda: push.log)
            push.wait_for("a message is refused")
        bodies = list(endpoint.bodies)
        with pushing(tmp_path, "--config", "push.toml") as push:
            send(server, "/queue/hooks", "last")
            eventually(lambda: endpoint.bodies[len(bodies) :] == [b"last"], lambda: push.log)
    assert sorted(bodies) == [b"bad", b"good", b"late", b"late"]
    assert len({got.id for got in endpoint.requests if got.body == b"late"}) == 1
