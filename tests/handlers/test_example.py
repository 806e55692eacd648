"""examples/handlers_app.py with the real client stomp.py, and what docs/handlers.md shows: both run as written."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.handlers import Handlers
from tests.clients.worker import work
from tests.gateway_process import GatewayProcess

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "handlers_app.py"
PAGE = ROOT / "docs" / "handlers.md"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway that finds the example in its working directory."""
    shutil.copy(EXAMPLE, tmp_path)
    with GatewayProcess(tmp_path, {"handlers": "handlers_app:app"}).running() as process:
        yield process


def test_the_example(gateway: GatewayProcess) -> None:
    with work("1.2", gateway.tcp_port, ("ann", "")) as ann, work("1.2", gateway.tcp_port) as other:
        ann.subscribe("/app/prices")
        assert json.loads(ann.body()) == {"tea": 3.2, "coffee": 2.9}
        other.subscribe("/topic/prices.tea")
        ann.send("/app/prices/tea", "4.10", headers={"reply-to": "/temp-queue/answers"})
        answer, news = ann.message(), other.message()
        assert (answer.headers["subscription"], answer.body) == ("/temp-queue/answers", b"tea costs 4.1")
        assert (news.headers["changed-by"], news.body) == ("ann", b"4.1")
        ann.subscribe("/queue/dlq.app", id="2")
        ann.send("/app/prices/tea", "much")
        letter = ann.message()
        assert (letter.body, letter.headers["reason"]) == (b"much", "the body is not JSON")
        other.subscribe("/app/prices", id="2")
        assert json.loads(other.body()) == {"tea": 4.1, "coffee": 2.9}


def test_the_page_shows_what_runs() -> None:
    block = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert block is not None
    shown: dict[str, Handlers] = {}
    exec(block[1], shown)
    assert [function.queue for function in shown["app"].functions()] == [
        "/handlers/send/greet/{name}",
        "/handlers/subscribe/prices",
    ]
