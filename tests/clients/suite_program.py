"""Runs tests of another project's unittest suite, in a process of its own: `python suite_program.py JOB`.

JOB is JSON, the arguments of `main`; the report is a JSON object: what a test's failure says, by its name.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Outcomes(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.found[test.id()] = ""

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.found[test.id()] = "".join([text for case, text in self.errors + self.failures if case is test])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.errors.append((test, f"it skips itself: {reason}"))


def configure_stompest(host: str, port: int, tls_port: int, closed: list[int], patience: float) -> None:
    """Tell stompest's suite where the broker is, and where none is.

    It takes as nothing what does not come in 0.1 s, which is short on a busy machine.
    """
    place: Any = importlib.import_module("stompest.tests")
    place.HOST, place.PORT, place.PORT_SSL = host, port, tls_port
    suite: Any = importlib.import_module("stompest.tests.sync_client_integration_test")
    ports = {"61613": port, "61610": closed[0], "61611": closed[1]}
    config = suite.StompConfig

    def there(uri: str, **options: Any) -> Any:
        return config(re.sub(r"(?<=localhost:)\d+", lambda match: str(ports[match[0]]), uri), **options)

    suite.StompConfig = there
    for each in (suite.SimpleStompIntegrationTest, suite.SimpleStompIntegrationTestSSL):
        each.TIMEOUT = patience
        each.DESTINATION = f"/queue/{each.__name__}"  # the two run side by side


def flat(tests: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main(folder: str, names: list[str], left_out: list[str], stompest: dict[str, Any] | None, report: str) -> None:
    sys.path.insert(0, folder)
    logging.disable()
    if stompest:
        configure_stompest(**stompest)
    outcomes = Outcomes()
    for test in flat(unittest.defaultTestLoader.loadTestsFromNames(names)):
        if test.id() not in left_out:
            test.run(outcomes)
    Path(report).write_text(json.dumps(outcomes.found))
    sys.stdout.flush()
    os._exit(0)  # threads of the clients may be left


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
