"""Pages that explain, and show commands and programs in between: these run as they stand, on a machine of their own.

What surrounds them is made here: messages that there are, and a `pip` that installs nothing.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.machine import FOLDER, ROOT, Machine
from tests.docs.page import blocks, listed

pytestmark = [pytest.mark.slow, pytest.mark.long]

STATE = "/var/lib/stomp-gateway"


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def without_figures(line: str) -> str:
    return re.sub(r"\d[\d,.]*\b", "0", line)


def test_archive(machine: Machine) -> None:
    install, archive = next(block.text for block in blocks("docs/archive.md") if block.kind == "sh").splitlines()
    assert install == 'pip install "$(ls dist/*.whl)[pipeline]"'
    machine.run(f"mkdir -p {STATE}")
    machine.serve(f"GATEWAY_JOURNAL={STATE}/journal gateway serve")
    machine.run("gateway send /queue/work tea")
    machine.stop()
    said = [without_figures(line) for line in machine.run(f"{archive} --once").splitlines()]
    assert without_figures(listed("docs/archive.md")[0]).replace("/g0-", "/gateway-") in said
    machine.run(f"ln -s {STATE}/archive archive")
    (program,) = [block.text for block in blocks("docs/archive.md") if block.kind == "python"]
    before = "from datetime import UTC, datetime\nfrom pathlib import Path\n"
    before += "since, until = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)\n"
    shown = re.sub(r"^(history\.files\(.*?\))(?=  #)", r"print(*\1)", program, flags=re.MULTILINE)
    machine.write("files.py", before + shown)
    files = machine.run("python files.py").split()
    assert files
    machine.run(f"ls {' '.join(files)}")
    (touch,) = re.findall(r"`(find archive/raw .*?)`", text_of("archive.md"))
    machine.run(touch)
    (open_to_the_group,) = listed("docs/archive.md", "Access rights")
    machine.run(open_to_the_group.replace("ARCHIVE", "archive"))
    assert machine.run("stat --dereference --format %a archive") == "750\n"


def test_durability(machine: Machine) -> None:
    machine.run(f"mkdir -p {STATE}")
    machine.write("gateway.toml", "\n".join([block.text for block in blocks("docs/durability.md")]))
    machine.serve()
    machine.run("gateway send /queue/work tea; gateway send /topic/news gone")
    machine.stop()
    for command in listed("docs/durability.md", "A damaged file"):
        machine.run(command)
    machine.run(f"cd {FOLDER}")
    machine.serve()
    assert machine.run("gateway subscribe /queue/work --count 1").endswith("\ntea\n")


def test_handlers(machine: Machine) -> None:
    program, policy = blocks("docs/handlers.md")
    assert program.file == "prices.py"
    machine.write("prices.py", program.text)
    machine.write("gateway.toml", policy.text)
    (serve,) = listed("docs/handlers.md")
    machine.serve(serve)
    assert machine.run("gateway subscribe /app/prices --count 1") == '{"tea": 3.2}\n'
    assert machine.run("gateway send /app/greet/bob ''").startswith("1 message sent")


def test_replay(machine: Machine) -> None:
    """A page that was cut off gets what came meanwhile."""
    policy, program = blocks("docs/replay.md")
    machine.write("gateway.toml", policy.text)
    machine.serve()
    before = """
import { Client } from "@stomp/stompjs";
const client = new Client({ brokerURL: "ws://127.0.0.1:15674/ws", reconnectDelay: 10 });
const reload = () => console.log("gap");
const show = (body) => {
  console.log(body);
  if (body === "2") client.deactivate();
  else if (body === "1") {
    client.publish({ destination: "/topic/prices.acme", body: "2" });
    client.forceDisconnect();
  }
};
"""
    behind = """
const subscribe = client.onConnect;
client.onConnect = (frame) => {
  subscribe(frame);
  if (!last) client.publish({ destination: "/topic/prices.acme", body: "1" });
};
client.activate();
"""
    machine.write("replay.mjs", before + program.text + behind)
    assert machine.run("node replay.mjs") == "1\n2\n"


def test_selectors(machine: Machine) -> None:
    machine.serve()
    headers = dict(line.split(":", 1) for line in listed("docs/selectors.md") if ":" in line)
    for region, weight in (("US", 3000), ("EU", 2000), ("EU", 3000)):
        machine.run(f"gateway send /queue/orders {region}-{weight} -H region:{region} -H weight:{weight}")
    shown = machine.run(f'gateway subscribe /queue/orders --browse --selector "{headers["selector"]}"')
    assert shown == "EU-3000\n"


def test_tables_of_the_pipeline(machine: Machine) -> None:
    (program,) = [block.text for block in blocks("docs/pipeline.md") if block.kind == "python"]
    machine.run("mkdir tables")
    machine.write("read.py", f"{program}print(metrics.num_rows)\n")
    assert machine.run("python read.py") == "0\n"
