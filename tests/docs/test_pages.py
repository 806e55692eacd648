"""Pages that explain, and show commands and programs in between: these run as they stand, on a machine of their own.

What surrounds them is made here: messages that there are, and a `pip` that installs nothing.
"""

from __future__ import annotations

import json
import re
import time

import jwt
import pytest

from tests.docs.machine import FOLDER, ROOT, Machine
from tests.docs.page import blocks, listed, perform

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
    machine.run("gateway send /queue/work tea; gateway send /topic/news gone; mkdir -p /var/backups")
    once, often = listed("docs/durability.md", "Copies")
    assert machine.run(once).endswith(" bytes, whole\n")
    assert "whole" in machine.run(f"timeout 5 {often} || true")
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


def test_schemas(machine: Machine) -> None:
    policy, schema, program = blocks("docs/schemas.md")
    machine.write("gateway.toml", policy.text)
    machine.write("order.json", schema.text)
    machine.write("shop.py", program.text)
    machine.serve("GATEWAY_HANDLERS=shop:app gateway serve")
    machine.run("""gateway send /queue/orders '{"id": 7, "items": [{"price": 2}]}'""")
    refused = machine.run("""gateway send /queue/orders '{"id": 7, "items": [{"price": -2}]}' 2>&1 || true""")
    (sentence,) = [line for line in listed("docs/schemas.md") if line.startswith("messages to")]
    assert sentence in refused
    machine.run("""gateway send /app/shop/3/order '{"items": [{"name": "tea", "price": -2}]}'""")
    letter = machine.run("gateway subscribe /queue/dlq.app --count 1 --json")
    assert "the body: items.0.price: Input should be greater than 0" in letter
    document = json.loads(machine.run("curl -s http://127.0.0.1:8000/asyncapi.json"))
    assert list(document["channels"]) == [
        "send-app-shop-shop-order",
        "send-app-shop-shop-order-reply",
        "policy-queue-orders",
    ]


def test_schedules(machine: Machine) -> None:
    (program,) = blocks("docs/schedules.md")
    machine.write("report.py", program.text)
    machine.serve()
    machine.run("python report.py")
    orders = "gateway subscribe /queue/reports --count 3 2> /dev/null"
    assert machine.run(orders) == "look for orders\n" * 3
    (row,) = json.loads(machine.run("curl -s http://127.0.0.1:8000/api/v1/scheduled"))["scheduled"]
    assert row["schedule"] == "0 9 * * MON-FRI Europe/Berlin"


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


def test_tests_against_the_gateway(machine: Machine) -> None:
    # As an installed entry point does it, which may or may not be here.
    machine.run("export PYTEST_ADDOPTS='-p no:stomp-gateway -p gateway.testing.plugin'")
    assert perform(machine, blocks("docs/howto-test.md")) == 3


def test_page_helper(machine: Machine) -> None:
    """The module that its pieces make: it is cut off, and loses nothing."""
    (policy,) = blocks("docs/replay.md")
    secret = "a secret of more than thirty-two bytes"
    machine.write("secret.txt", f"{secret}\n")
    machine.write("gateway.toml", f'jwt_keys = "secret.txt"\n{policy.text}')
    machine.serve()
    token = jwt.encode({"sub": "alice", "exp": time.time() + 30}, secret, "HS256")
    (fetch,) = [block.text for block in blocks("docs/page-helper.md") if block.kind == "sh"]
    machine.run(fetch)
    page = "".join([block.text for block in blocks("docs/page-helper.md") if block.kind == "js"])
    machine.write("page.mjs", f"globalThis.newToken = async () => {json.dumps(token)};\n{page}{BEHIND}")
    shown = machine.run("timeout 30 node page.mjs").splitlines()
    assert shown == ["connected", "price 1", "not connected", "connected", "price 2", "answer 9"]


BEHIND = """
const answer = ({ headers: { "reply-to": destination, "correlation-id": id }, body }) =>
  gateway.client.publish({ destination, body: `answer ${body ** 2}`, headers: { "correlation-id": id } });
gateway.subscribe("/queue/squares", answer);
follow("/topic/prices.acme", async (price) => {
  console.log(price);
  if (price === "price 1") {
    gateway.client.forceDisconnect();
    send("/topic/prices.acme", "price 2");
  } else {
    console.log(await ask("/queue/squares", "3"));
    process.exit(0);
  }
}, () => console.log("gap"));
send("/topic/prices.acme", "price 1");
"""


DJANGO = """
import os, sys
from pathlib import Path

import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["orders"], ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path("db.sqlite")}},
)
django.setup()
from django.core.management import call_command
from django.test import Client
from django.urls import path
from orders import models, views

urlpatterns = [path("orders", views.order)]
call_command("migrate", run_syncdb=True, verbosity=0)
print(Client().post("/orders", {"text": sys.argv[1]}).status_code, models.Outgoing.objects.count())
"""


def test_publishing_over_http(machine: Machine) -> None:
    (settings,) = [block.text for block in blocks("docs/howto-publish.md") if block.kind == "toml"]
    (curl,) = [block.text for block in blocks("docs/howto-publish.md") if block.kind == "sh"]
    rule = '[[rule]]\ndestination = "/queue/#"\nusers = ["ann"]\nallow = ["subscribe"]\n'
    machine.write("gateway.toml", settings + rule)
    for user in ("shop", "ann"):
        machine.run(f"echo secret | gateway passwd users.txt {user}")
    machine.serve()
    for _ in range(2):
        assert machine.run(curl) == '{"published":1}'
    machine.run("echo secret > ann.txt")
    ann = "gateway subscribe /queue/orders --timeout 2 --url stomp://ann@127.0.0.1 --passcode-file ann.txt"
    assert machine.run(f"{ann} 2> /dev/null") == "two cups\n"
    assert machine.run(curl.replace("queue/orders", "queue/wages")).startswith('{"error":"access refused: ')


def test_server_sent_events(machine: Machine) -> None:
    (program,) = blocks("docs/sse.md")
    (curl,) = listed("docs/sse.md")
    machine.write("prices.mjs", program.text)
    machine.serve()
    machine.run("node --experimental-eventsource --no-warnings prices.mjs > node.log 2>&1 & node=$!")
    machine.run(f"{curl} > curl.log 2>&1 & curl=$!")
    both = "gateway send /topic/prices tea && grep -qx tea node.log && grep -qx 'data: tea' curl.log"
    machine.run(f"timeout 30 bash -c \"until {both}; do sleep 0.1; done\" > /dev/null 2>&1")
    machine.run("kill $node $curl")


def test_web_applications(machine: Machine) -> None:
    """With a gateway, without one, and with one again."""
    for block in blocks("docs/howto-publish.md"):
        if block.kind == "python":
            machine.write(block.file or "", block.text)
    machine.write("web.py", DJANGO)
    machine.run("mkdir orders; mv models.py views.py orders")
    machine.run("hypercorn shop:app --bind 127.0.0.1:8080 > shop.log 2>&1 & shop=$!")
    machine.run("timeout 30 bash -c 'until curl http://127.0.0.1:8080/docs > /dev/null 2>&1; do sleep 0.05; done'")
    fast = "curl -w '%{http_code}\\n' -o /dev/null -X POST http://127.0.0.1:8080/orders?text="
    machine.serve()
    assert machine.run(f"{fast}tea; python web.py milk") == "202\n202 0\n"
    machine.stop()
    assert machine.run(f"{fast}tea; python web.py salt 2> /dev/null") == "503\n202 1\n"
    machine.serve()
    assert machine.run(f"{fast}beer; python web.py coffee") == "202\n202 0\n"
    assert machine.run("gateway subscribe /queue/orders --count 3 2> /dev/null") == "beer\n2: salt\n3: coffee\n"
    machine.run("kill -TERM $shop; wait $shop")
