"""docs/operations.md on installing: its commands are carried out, in an overlay of this machine and not on it.

Only systemd is not there; `systemctl` beside this file does what the units say.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from gateway.cli.main import main
from tests.clients.driver import ROOT
from tests.clients.nginx import DEPLOY
from tests.deploy.image import Stage
from tests.deploy.test_container import IMAGE, TestKubernetes

PAGE = (ROOT / "docs" / "operations.md").read_text()
BEFORE = """
set -e
ip link set lo up
trap 'kill -TERM $(cat /run/gateway.pid 2> /dev/null) 2> /dev/null || true' EXIT
"""


def section(title: str) -> str:
    """A section of the page, up to the next title."""
    (text,) = re.findall(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def commands(title: str) -> list[str]:
    """What a section tells to type, but for settings, and journalctl, which needs a systemd that runs."""
    lines = re.findall(r"^    (\S.*)$", section(title), re.MULTILINE)
    return [line for line in lines if " = " not in line and not line.startswith("journalctl")]


def settings(title: str) -> str:
    """The lines of gateway.toml in a section."""
    fenced = re.findall(r"^```toml\n(.*?)^```$", section(title), re.DOTALL | re.MULTILINE)
    return "".join(fenced) or "\n".join(re.findall(r"^    (\S+ = .*)$", section(title), re.MULTILINE))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_installation(tmp_path: Path) -> None:
    """From the wheel to copies of the store, as root of a machine that has nothing of it."""
    stage = Stage(tmp_path / "machine", cwd="/src")
    source = stage.place(".")
    wheel = [sys.executable, *"-m pip wheel --quiet --no-deps --wheel-dir".split(), str(source / "dist"), str(ROOT)]
    subprocess.run(wheel, check=True, timeout=200, capture_output=True)
    (source / "deploy").symlink_to(DEPLOY)
    (source / "gateway.toml").write_text(settings("Install for production"))
    stub = stage.place("/usr/local/bin/systemctl")
    stub.parent.mkdir(parents=True)
    stub.symlink_to(Path(__file__).parent / "systemctl")

    install = commands("Install for production")
    offline = install.index("systemctl daemon-reload")
    stage.run(["sh", "-ec", "\n".join(install[:offline])], told="engine\n")
    sockets = commands("Sockets that stay")
    assert sockets.pop() == "systemctl start stomp-gateway"
    script = [
        *install[offline:],
        *commands("A new version, and the way back"),
        *commands("Copies of the store"),
        *sockets,
        # The file has policies at its end, and these are new keys.
        "sed -i '/^tcp = /d' /etc/stomp-gateway/gateway.toml",
        f"printf '%s\\n' {shlex.quote(settings('Sockets that stay'))} > /run/new",
        "cat /etc/stomp-gateway/gateway.toml >> /run/new",
        "cat /run/new > /etc/stomp-gateway/gateway.toml",
        "systemctl start stomp-gateway",
        "systemctl restart stomp-gateway",
        "grep 'Listening on' /run/gateway.log",
        "cat /run/systemctl.log",
    ]
    said = stage.run(["sh", "-c", BEFORE + "\n".join(script)], alone=True)
    assert "/var/backups/stomp-gateway/store.db is whole" in said
    assert '{"status":"ready"}' in said
    assert said.count("restart stomp-gateway") == 2
    assert re.findall(r"Listening on (\S+) as \d", said) == ["127.0.0.1:61613", "127.0.0.1:15674", "127.0.0.1:8000"]


def test_what_nginx_gets() -> None:
    """Each file beside where the others look for it; `test_nginx` runs them."""
    placed = dict(re.findall(r"^    install -D -m 644 (\S+) (\S+)  #", section("TLS"), re.MULTILINE))
    in_cluster = "deploy/nginx-cluster.conf"  # in place of nginx.conf
    others = {in_cluster, "deploy/nginx-cluster-stream.conf"}
    assert set(placed) == {f"deploy/{path.name}" for path in DEPLOY.glob("nginx*.conf")} - others
    assert "include /etc/nginx/stomp-gateway/tls*.conf;" in (ROOT / in_cluster).read_text()
    text = (DEPLOY / "nginx.conf").read_text()
    for place in placed.values():
        folder, name = place.rsplit("/", 1)
        included = re.sub(r"\.conf$", "*.conf", name)
        assert place == "/etc/nginx/nginx.conf" or f"include {folder}/{included};" in text


def of_containers() -> Iterator[list[str]]:
    """The words of each command of the section, without variables in front."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", section("Containers"), re.DOTALL | re.MULTILINE)
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        yield [word for place, word in enumerate(words) if place or not re.match(r"[A-Z_]+=", word)]


def known(words: list[str]) -> bool:
    return not words or words[0] in main.list_commands(click.Context(main))


def test_what_the_commands_of_containers_name_is_there() -> None:
    """Images, files, services and commands of the gateway."""
    for words in of_containers():
        match words:
            case ["docker", "build", *rest]:
                assert rest == ["-f", "deploy/Dockerfile", "-t", IMAGE, "."]
            case ["docker", "run", *rest]:
                place = rest.index(IMAGE)
                assert "--entrypoint" in rest[:place] or known(rest[place + 1 :])
            case ["docker", "compose", "-f", file, verb, *rest]:
                services = yaml.safe_load((ROOT / file).read_text())["services"]
                if verb == "run":
                    assert rest[:3] == ["--rm", "--no-deps", "gateway"]
                    assert known(rest[3:])
                else:
                    assert {word for word in rest if not word.startswith("--")} <= set(services)
            case ["docker", *rest]:
                assert rest in (["logs", "gateway"], ["kill", "--signal", "HUP", "gateway"], ["stop", "gateway"])
            case ["gateway", *rest]:
                assert known(rest)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (volume,) = compose["volumes"]
    assert f"--volume {compose['name']}_{volume}:/state:ro" in section("Containers"), "compose puts its name in front"


def test_kubernetes() -> None:
    secret, *rest = [words for words in of_containers() if words[0] == "kubectl"][:4]
    (mounted,) = [each["secret"] for each in TestKubernetes.POD["volumes"] if "secret" in each]
    assert secret[:5] == ["kubectl", "create", "secret", "generic", mounted["secretName"]]
    keys = {re.split(r"[=/]", word)[1] for word in secret[5:]}
    wanted = TestKubernetes.CONTAINER["env"][0]["valueFrom"]["secretKeyRef"]["key"]
    assert keys == {*[item["key"] for item in mounted["items"]], wanted}
    name = f"statefulset/{TestKubernetes.OBJECTS['StatefulSet']['metadata']['name']}"
    assert [words[1:] for words in rest] == [
        ["apply", "-f", "deploy/kubernetes.yaml"],
        ["rollout", "status", name],
        ["rollout", "restart", name],
    ]
