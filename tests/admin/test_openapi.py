"""The OpenAPI document: it is one, it says all, and requests made up from it are answered as it says.

`running.Running.check` holds every answer of the other tests against it, too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
import trio
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import Case, GenerationMode
from schemathesis.core import NotSet

from docs.generate import api
from gateway.admin.openapi import document
from tests.app.asgi import Answer

from .running import Running, running

DOCUMENT = document(api.table())
# After a drain nothing could be asked that needs a listener; a tap does not end.
LEFT_OUT = {("post", "/api/v1/drain"), ("get", "/api/v1/sessions/{id}/tap")}
OPERATIONS = [
    (method, path)
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if (method, path) not in LEFT_OUT
]
# What can be wrong: a body, or a parameter of the query; a path and a header are texts, which all are right.
WITH_CHOICE = [
    (method, path)
    for method, path in OPERATIONS
    if "requestBody" in (found := DOCUMENT["paths"][path][method])
    or any(each["in"] == "query" for each in found.get("parameters", ()))
]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
EXAMPLES = 6
FAULTS = (500, 502, 504)


def test_it_is_one() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    json.dumps(DOCUMENT)
    names = [operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    assert "get_sessions_id" in names


class Elsewhere:
    """A gateway on a thread of its own, for tests that are no trio."""

    def __init__(self, site: Running, token: trio.lowlevel.TrioToken) -> None:
        self._site = site
        self._token = token

    def ask(self, case: Case) -> Answer:
        made = case.as_transport_kwargs(base_url="http://localhost")
        prepared = requests.Request(
            made["method"],
            made["url"],
            params=made.get("params"),
            json=made.get("json"),
            data=made.get("data"),
            headers={name: value for name, value in (made.get("headers") or {}).items() if name != "User-Agent"},
        ).prepare()
        address = urlsplit(prepared.url or "")
        body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
        call = partial(
            self._site.ask,
            made["method"],
            f"{address.path}?{address.query}" if address.query else address.path,
            body,
            headers={name.lower(): str(value) for name, value in prepared.headers.items()},
        )
        return trio.from_thread.run(call, trio_token=self._token)


@contextmanager
def elsewhere(folder: Path) -> Iterator[Elsewhere]:
    opened = threading.Event()
    found: list[Elsewhere] = []
    ends: list[trio.Event] = []

    async def main() -> None:
        async with running() as site:
            ends.append(trio.Event())
            found.append(Elsewhere(site, trio.lowlevel.current_trio_token()))
            opened.set()
            await ends[0].wait()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    assert opened.wait(20)
    try:
        yield found[0]
    finally:
        trio.from_thread.run_sync(ends[0].set, trio_token=found[0]._token)
        thread.join()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("openapi")
        patch.chdir(folder)
        with elsewhere(folder) as found:
            yield found


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_requests_that_are_made_up(gateway: Elsewhere, method: str, path: str, mode: GenerationMode) -> None:
    if mode is GenerationMode.NEGATIVE and (method, path) not in WITH_CHOICE:
        return

    def look(case: Case) -> None:
        answer = gateway.ask(case)
        assert answer.status not in FAULTS
        if mode is GenerationMode.NEGATIVE and not isinstance(case.body, NotSet) and not case.query:
            assert 400 <= answer.status < 500

    strategy = SCHEMA[path][method.upper()].as_strategy(generation_mode=mode)
    quiet = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    quiet(given(strategy)(look))()
