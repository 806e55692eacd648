"""Cuts lose what they say, and nothing else; nothing is left of a network, nor of a test that was killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.network import Namespace, Network, NoNetwork, network

PORT = 7000
SOON = 0.3
"""Seconds in which a packet comes, or is lost."""


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with network(3) as found:
        yield found


@pytest.fixture(autouse=True)
def mended(net: Network) -> Iterator[None]:
    yield
    net.mend()


def reaches(source: Namespace, target: Namespace) -> bool:
    """True if a packet comes through, which needs no answer."""
    with source.inside():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with target.inside():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender, receiver:
        receiver.bind((target.address, PORT))
        receiver.settimeout(SOON)
        sender.sendto(b"hello", (target.address, PORT))
        try:
            return receiver.recv(10) == b"hello"
        except TimeoutError:
            return False


def lost(net: Network) -> set[tuple[int, int]]:
    """Numbers of the machines between which packets are lost."""
    machines = list(enumerate(net.machines))
    return {(a, b) for a, source in machines for b, target in machines if a != b and not reaches(source, target)}


class TestCuts:
    def test_none(self, net: Network) -> None:
        assert not lost(net)

    @pytest.mark.parametrize(
        ("way", "expected"),
        [("", {(0, 1), (0, 2), (1, 0), (2, 0)}), ("out", {(0, 1), (0, 2)}), ("in", {(1, 0), (2, 0)})],
    )
    def test_of_a_machine_from_all(self, net: Network, way: str, expected: set[tuple[int, int]]) -> None:
        net.cut(net.machines[0], way)
        assert lost(net) == expected
        assert reaches(net.machines[0], net.machines[0])
        net.mend()
        assert not lost(net)

    @pytest.mark.parametrize(("way", "expected"), [("", {(0, 1), (1, 0)}), ("out", {(0, 1)}), ("in", {(1, 0)})])
    def test_between_two(self, net: Network, way: str, expected: set[tuple[int, int]]) -> None:
        net.cut(net.machines[0], way, net.machines[1])
        assert lost(net) == expected
        net.mend()
        assert not lost(net)

    def test_the_router_is_cut_as_the_others_are(self, net: Network) -> None:
        machine = net.machines[0]
        for way in ("out", "in"):
            net.cut(machine, way)
            with machine.inside():
                server = socket.create_server((machine.address, PORT))
            with server, net.router.inside(), pytest.raises(OSError):
                socket.create_connection((machine.address, PORT), SOON)
            net.mend()

    async def test_the_own_loopback_is_open_all_the_time(self, net: Network) -> None:
        machine = net.machines[0]
        net.cut(machine)
        with machine.inside(), socket.create_server(("127.0.0.1", PORT)):
            await (await machine.connect(PORT)).aclose()
        net.mend()
        with pytest.raises(ConnectionRefusedError):
            await machine.connect(PORT)


def test_nothing_is_seen_outside(net: Network) -> None:
    with net.machines[0].inside(), socket.create_server((net.machines[0].address, PORT)):
        inside = os.readlink("/proc/thread-self/ns/net")
    assert inside != os.readlink("/proc/thread-self/ns/net")
    routes = Path("/proc/net/route").read_text()
    assert "0012" not in routes  # 198.18.0.0 as the kernel writes it ends like that


def test_what_a_killed_test_left_is_removed() -> None:
    code = (
        "import os\n"
        "from subprocess import DEVNULL, Popen\n"
        "from tests.cluster.network import network\n"
        "with network(1) as net:\n"
        "    machine = net.machines[0]\n"
        "    process = Popen([*machine.command, 'sleep', '60'], stdout=DEVNULL, stderr=DEVNULL)\n"
        "    print(machine.name, net.router.name, process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30).stdout
    machine, router, pid = told.split()
    with network(1):
        names = os.listdir("/run/netns")
    assert machine not in names
    assert router not in names
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_without_iproute2_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = r"^network namespaces do not work here: ip: No such file or directory: .*root"
    with pytest.raises(NoNetwork, match=expected), network(1):
        pass
