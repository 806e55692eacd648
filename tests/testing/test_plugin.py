"""The pytest plugin, in projects of its users: each kind of test, empty gateways, settings, and what a test leaves."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.testing.projects import run_tests

ROOT = Path(__file__).parents[2]


def test_every_kind_of_test(tmp_path: Path) -> None:
    shown = run_tests(
        tmp_path,
        "-v",
        test_kinds="""
        import asyncio, threading
        from contextlib import closing
        import pytest, trio
        from gateway.client import Client, StompServer, connect


        async def converse(gateway, url):
            async with connect(url) as client:
                await client.send("/queue/work", "tea")
            assert [each.text for each in gateway.messages("/queue/work")] == ["tea"]


        def test_sync(gateway):
            with closing(Client(StompServer(gateway.host, gateway.port))) as client:
                client.request("SEND", {"destination": "/queue/work"}, b"tea")
            assert [each.text for each in gateway.messages("/queue/work")] == ["tea"]


        def test_asyncio(gateway):
            asyncio.run(converse(gateway, gateway.url))


        @pytest.mark.trio
        async def test_trio(gateway):
            assert type(gateway).__name__ == "LocalGateway"
            assert not [each for each in threading.enumerate() if each.name == "gateway-of-test"]
            await converse(gateway, gateway.websocket_url)


        @pytest.fixture
        def filled(gateway):  # a fixture of a user, which takes the gateway in either kind of test
            gateway.send("/queue/work", "milk")
            return gateway


        @pytest.mark.trio
        async def test_trio_by_a_fixture(filled):
            assert [each.text for each in filled.messages("/queue/work")] == ["milk"]


        def test_sync_by_a_fixture(filled):
            assert [each.text for each in filled.messages("/queue/work")] == ["milk"]


        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio", "asyncio"])
        async def test_anyio(gateway):
            await converse(gateway, gateway.url)


        @pytest.mark.trio
        async def test_autojump(gateway, autojump_clock):
            gateway.send("/queue/work", "tea", {"x-delay": "3600000"})
            await trio.sleep(3601)
            assert [each.delayed for each in gateway.messages("/queue/work")] == [False]
        """,
    )
    assert shown.startswith("0\n"), shown
    assert "8 passed" in shown


def test_settings(tmp_path: Path) -> None:
    policy = '[[policy]]\nmatch = "/queue/#"\nmax_messages = 2\nwhen_full = "drop-oldest"\n'
    (tmp_path / "gateway.toml").write_text(f'store = "sqlite:store.db"\n{policy}')
    shown = run_tests(
        tmp_path,
        conftest="""
        import pytest

        @pytest.fixture(scope="session")
        def gateway_settings():
            return "gateway.toml"
        """,
        test_file="""
        from pathlib import Path
        import pytest

        def fill(gateway):
            for _ in range(3):
                gateway.send("/queue/work", "tea")
            return len(gateway.messages("/queue/work"))

        def test_of_the_file(gateway):
            assert fill(gateway) == 2
            assert not Path("store.db").exists(), "tests leave the store of the service alone"

        @pytest.mark.gateway(policy=[{"match": "/queue/#", "max_messages": 1, "when_full": "drop-oldest"}])
        def test_marked(gateway):
            assert fill(gateway) == 1
        """,
        test_module="""
        import pytest

        @pytest.fixture
        def gateway_settings():
            return {"server_name": "tea"}

        def test_of_the_module(gateway):
            from contextlib import closing
            from gateway.client import Client, StompServer

            with closing(Client(StompServer(gateway.host, gateway.port))) as client:
                assert client.server.startswith("tea/")
        """,
        test_wrong="""
        import pytest

        @pytest.mark.gateway(max_bdy=1)
        def test_wrong(gateway):
            pass

        @pytest.mark.gateway(tcp=["127.0.0.1:61613"])
        def test_elsewhere(gateway):
            pass

        @pytest.mark.gateway(policy=[{"match": "/queue/#", "max_length": 1}])
        def test_wrong_policy(gateway):
            pass
        """,
    )
    assert "gateway_settings: there is no setting 'max_bdy'; docs/settings.md has all" in shown
    assert "gateway_settings: leave out 'tcp'; the gateway of a test has its own value" in shown
    assert 'policy 1 for "/queue/#": there is no key "max_length"; did you mean max_messages?' in shown
    assert "3 passed, 3 errors" in shown, shown


def test_what_a_test_leaves(tmp_path: Path) -> None:
    """Open connections, messages, subscriptions, a clock set forward: nothing reaches the next test, or holds it up."""
    shown = run_tests(
        tmp_path,
        test_left="""
        import socket
        import time
        import pytest

        left = []

        @pytest.mark.parametrize("number", range(20))
        def test_one(gateway, number):
            began = time.monotonic()
            for port in (gateway.port, gateway.port, int(gateway.websocket_url.split(":")[2].partition("/")[0])):
                left.append(socket.create_connection((gateway.host, port), timeout=5))
            left[-3].sendall(b"CONNECT\\naccept-version:1.2\\nhost:x\\nheart-beat:1000,1000\\n\\n\\0")
            assert left[-3].recv(9) == b"CONNECTED"
            left[-3].sendall(b"SUBSCRIBE\\nid:1\\ndestination:/queue/work\\nack:client\\n\\n\\0")
            gateway.wait_until(lambda: gateway.subscribers("/queue/work"))
            assert gateway.messages("/queue/work") == gateway.unacknowledged("/queue/work") == []
            gateway.send("/queue/work", "tea")
            assert len(gateway.unacknowledged("/queue/work")) == 1
            gateway.advance(86400)

        @pytest.mark.trio
        async def test_in_a_loop(gateway):
            left.append(socket.create_connection((gateway.host, gateway.port)))
            assert not gateway.sent("/queue/work")

        def test_all_are_cut():
            for each in left:
                each.settimeout(5)
                try:
                    while each.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
                each.close()
        """,
    )
    assert "22 passed" in shown, shown


def test_pytest_imports_nothing_of_the_gateway_before_a_test_asks_for_it(tmp_path: Path) -> None:
    shown = run_tests(
        tmp_path,
        "-s",
        test_alone="""
        import sys

        def test_alone():
            found = sorted(each for each in sys.modules if each.partition(".")[0] == "gateway")
            assert found == ["gateway", "gateway.testing", "gateway.testing.plugin"]
        """,
    )
    assert "1 passed" in shown, shown


def test_processor_time_of_the_import() -> None:
    """In seconds, behind that of pytest; the least of some, because others run here, too."""
    program = (
        "import time, pytest; start = time.process_time(); import gateway.testing.plugin; "
        "print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", program]
    times = [float(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout) for _ in range(3)]
    assert min(times) < 0.15


def test_the_entry_point() -> None:
    """The tests of this repository do without it, and with a `gateway` of their own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"stomp-gateway": "gateway.testing.plugin"}
    assert "-p no:stomp-gateway" in project["tool"]["pytest"]["ini_options"]["addopts"]
