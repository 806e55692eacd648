"""The commands of README.md and docs/pipeline.md that begin with a journal, on a machine of their own, with Spark.

The shop is a small one, jobs end when they have read everything, and nobody is there to be asked.
"""

from __future__ import annotations

import json
import re
import shlex
import sys

import pytest

from tests.docs.machine import FOLDER, ROOT, Machine
from tests.docs.page import blocks, listed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def machine(machine: Machine) -> Machine:
    machine.patience = 200
    return machine


def test_from_nothing_to_a_report(machine: Machine) -> None:
    """README.md; `make pipeline` has been called, or there would be no Spark here."""
    machine.run(f"ln -s {sys.prefix} .venv")
    install, shop, report = listed("README.md", "From nothing to a report")
    assert install == "make pipeline"
    counted = machine.run(f"{shop} --messages 1000 --rate 2000 2> shop.txt")
    assert json.loads(counted)["/queue/shop.orders"]["accepted"] > 0
    machine.run(report)
    assert machine.run("grep -c /queue/shop.orders report.html; tail -c 8 report.html").split()[-1] == "</html>"


def test_the_tour_and_a_replay(machine: Machine) -> None:
    text = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    (settings,) = [block.text for block in blocks("docs/pipeline.md") if block.kind == "toml"]
    machine.run("echo '127.0.0.1 host' >> /etc/hosts")
    machine.write("gateway.toml", settings)
    machine.serve()
    for name, body in (("red", "tea"), ("blue", "milk")):
        machine.run(f"gateway send /queue/orders.{name} {body}")
    machine.stop()
    doctor, run, report, status = re.findall(r"^\* `(gateway pipeline [^`]*)`:", text, re.MULTILINE)
    # Each start of Spark costs ten seconds and more.  tests/pipeline/test_doctor has the one, the test above the other.
    assert (doctor, report) == ("gateway pipeline doctor", "gateway pipeline report --journal journal --since 1h")
    machine.run(f"{run} --once")
    told = machine.run(status)
    assert all(job in told for job in ("metrics", "consumers", "sessions", "deadletters"))
    (replay,) = listed("docs/pipeline.md", "Replay")
    machine.serve("GATEWAY_JOURNAL= gateway serve")  # messages of the first one went with it
    machine.run(f"{replay} --yes")
    for name, body in (("red", "tea"), ("blue", "milk")):
        _, line = machine.run(f"gateway subscribe /queue/orders.{name} --json --count 1").splitlines()
        assert json.loads(line)["body"] == body
        assert "x-replayed-from" in json.loads(line)["headers"]


def test_on_a_cluster(machine: Machine) -> None:
    """There is no cluster here: the line is one that spark-submit reads, and what it names is there."""
    (command,) = listed("docs/pipeline.md", "On a cluster")
    words = shlex.split(machine.run(f"{command} 2> needs.txt"))
    assert any(word.endswith("/bin/spark-submit") for word in words)
    assert words[words.index("--master") + 1] == "spark://host:7077"
    files = [word for word in words if word.startswith(f"{FOLDER}/spark-submit/")]
    assert len(files) == 2
    machine.run(f"ls {' '.join(files)} && grep -q Java needs.txt")
