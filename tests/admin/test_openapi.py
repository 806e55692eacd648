"""The OpenAPI document: it is one, it says all, and requests made up from it are answered as it says.

`running.check` holds every answer of the other tests against it, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import Case, GenerationMode
from schemathesis.core import NotSet

from docs.generate import api
from gateway.admin.openapi import document
from tests.app.asgi import Answer
from tests.gateway_process import GatewayProcess, start_gateway

from .running import check

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


def test_an_answer_has_the_fields_of_its_schema_and_no_others() -> None:
    """So each of the tests of the API finds a field that its schema lacks."""
    schemas = DOCUMENT["components"]["schemas"].items()
    assert [name for name, each in schemas if each.get("additionalProperties") is not False] == ["JsonValue"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with start_gateway() as running:
        yield running


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_requests_that_are_made_up(gateway: GatewayProcess, method: str, path: str, mode: GenerationMode) -> None:
    if mode is GenerationMode.NEGATIVE and (method, path) not in WITH_CHOICE:
        return

    def look(case: Case) -> None:
        response = case.call(base_url=gateway.http_url)
        headers = {name.lower(): value for name, (value, *_) in response.headers.items()}
        answer = Answer(response.status_code, headers, response.content)
        check(DOCUMENT, method, path, answer)
        assert answer.status not in FAULTS
        if mode is GenerationMode.NEGATIVE and not isinstance(case.body, NotSet) and not case.query:
            assert 400 <= answer.status < 500

    strategy = SCHEMA[path][method.upper()].as_strategy(generation_mode=mode)
    quiet = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    quiet(given(strategy)(look))()
