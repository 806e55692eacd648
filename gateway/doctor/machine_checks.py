"""This machine: the gateway has its ports, may open enough files, may use its files, and has room on its disks.

The gateway is the program at the HTTP port of the settings, if it answers as one.  Under hypercorn `--bind` decides on
that port; then the setting `http` must say the same.  /proc tells the user of a listener, and its program only to root
and to that user.

Rights are read from owner, group and mode, because root runs the doctor and the gateway has another user.
"""

import math
import os
import pwd
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from gateway.config.errors import StartError
from gateway.config.settings import LISTENERS, MEMORY_ONLY, Settings, keep_messages
from gateway.config.values import Address
from gateway.pipeline.errors import PipelineFailure
from gateway.pipeline.spark import doctor as pipeline_doctor
from gateway.pipeline.spark import java
from gateway.runtime import listeners
from gateway.stores import StoreError, preflight
from gateway.stores.disk_space import RESERVE

from .model import CheckOptions, CheckReport, Problem

READ, WRITE, ENTER = 4, 2, 1
_RIGHTS = ((READ, "read", "r"), (WRITE, "write", "w"), (ENTER, "enter", "x"))
_FILES = ("users_file", "jwt_keys", "cookie_keys", "tls_certificate", "tls_key", "tls_client_ca")
_FOLDERS = ("journal", "archive", "tables")
_LEAST_FREE = 0.1  # of a disk
# As in gateway/transports/flow/connection_limits.py: listeners, store, journal, HTTP, and refused connections.
_OTHER_FILES = 512
_LISTENING = "0A"  # the state in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Process:
    """A program that listens; its pid is 0 where /proc does not tell."""

    pid: int
    name: str
    user: str

    def __str__(self) -> str:
        if not self.pid:
            return f"a program of {self.user}, which {' or '.join(sorted({'root', self.user}))} can name"
        return f"{self.name} (process {self.pid} of {self.user})"


@dataclass(frozen=True, slots=True)
class UnixUser:
    name: str
    uid: int
    groups: frozenset[int]


def check_machine(
    settings: Settings, options: CheckOptions, report: CheckReport, is_alive: bool, is_standby: bool = False
) -> None:
    """All checks of the machine; `is_alive` if a gateway answers at the HTTP port of the settings.

    `is_standby`: it is one of a cluster.
    """
    gateway = [each for text in settings.http for each in listening(Address.parse(text))] if is_alive else []
    check_ports(settings, gateway, report, is_alive, is_closed=is_standby and not settings.cluster_standby_listens)
    check_open_files(settings, gateway, report)
    with report.check("user") as check:
        user = user_of(options.user or next((each.user for each in gateway), ""))
        if not gateway and not options.user and user.uid == 0:
            detail = "the gateway does not run, so files are checked for root, which has every right"
            check.warn(detail, "Name its user, as in its systemd unit: --user stomp-gateway")
        check_files(settings, user, report)
    check_settings(settings, options.now(), report)


def check_ports(
    settings: Settings, gateway: list[Process], report: CheckReport, is_alive: bool, *, is_closed: bool = False
) -> None:
    """Each port of the settings belongs to the gateway.  `is_closed`: those of STOMP are for a primary alone."""
    addresses = [(name, Address.parse(text)) for name in LISTENERS for text in getattr(settings, name)]
    addresses = [(name, address) for name, address in addresses if address.port]
    if "http" not in [name for name, _ in addresses]:
        report.check("ports").ok("not checked: `http` has no port of its own (systemd, or a unix socket)")
        return
    found = {address: listening(address) for _, address in addresses}
    if not is_alive and not any(found.values()):
        remedy = "Start it (`gateway serve`, `systemctl start stomp-gateway`)"
        report.check("gateway").fail(f"it does not run here: no listener at {', '.join(map(str, found))}", remedy)
        return
    for name, address in addresses:
        check = report.check(f"port {name} {address}")
        processes = " and ".join(sorted({str(each) for each in found[address]}))
        if not processes and is_closed and name != "http":
            check.ok("it has no listener, because this node is a standby (cluster_standby_listens)")
        elif not processes:
            remedy = f"Restart the gateway, which started with other settings; or change {name}"
            check.fail("it has no listener", remedy if is_alive else "Start the gateway once its ports are free")
        elif set(found[address]) & set(gateway):
            check.ok(f"the gateway has it: {processes}")
        elif is_alive:
            remedy = f"Stop that program, or choose another port for {name}"
            check.fail(f"it is taken by {processes}, which is not the gateway", remedy)
        else:
            remedy = f"Stop that program, or choose another port for {name}; if it is the gateway, `http` does not say "
            detail = f"it is taken by {processes}, and no gateway answers at `http`"
            check.fail(detail, f"{remedy}where it answers (hypercorn: `--bind`)")


def listening(address: Address) -> list[Process]:
    sockets = dict(_sockets(address))
    links = {f"socket:[{inode}]" for inode in sockets}
    processes = []
    for folder in Path("/proc").glob("[0-9]*") if links else ():
        with suppress(OSError):  # it has ended, or belongs to another user
            if any(os.readlink(each) in links for each in (folder / "fd").iterdir()):
                name = (folder / "comm").read_text().strip()
                processes.append(Process(int(folder.name), name, _user_name(folder.stat().st_uid)))
    return processes or [Process(0, "", _user_name(uid)) for uid in sorted(set(sockets.values()))]


def _sockets(address: Address) -> Iterator[tuple[str, int]]:
    """Inode and user of each socket that takes connections to that address."""
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                row = line.split()
                host, _, port = row[1].rpartition(":")
                if row[3] == _LISTENING and int(port, 16) == address.port and _covers(host, address.host):
                    yield row[9], int(row[7])


def _covers(shown: str, wanted: str) -> bool:
    """True if a socket at one address, as /proc shows it, takes or blocks connections to another."""
    packed = b"".join([bytes.fromhex(shown[start : start + 8])[::-1] for start in range(0, len(shown), 8)])
    bound = ip_address(packed)
    bound = getattr(bound, "ipv4_mapped", None) or bound
    try:
        asked = ip_address("127.0.0.1" if wanted == "localhost" else wanted)
    except ValueError:
        return True  # a host name: the port decides
    return bound.is_unspecified or asked.is_unspecified or bound == asked


def check_open_files(settings: Settings, gateway: list[Process], report: CheckReport) -> None:
    """As many files may be open as the settings allow connections."""
    processes = max(settings.edges, 1)  # that have connections
    check, needed = report.check("open files"), math.ceil(settings.max_connections / processes) + _OTHER_FILES
    pid = next((each.pid for each in gateway if each.pid), 0)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # a gateway raises its own limit at the start
    process = "a program started from here"
    with suppress(OSError):  # a container may forbid it to root
        if pid:
            most, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            process = f"the gateway (process {pid})"
    if most == resource.RLIM_INFINITY or most >= needed:
        check.ok(f"{process} may open enough for {settings.max_connections} connections (max_connections)")
        return
    detail = f"{process} may open {most}, and max_connections = {settings.max_connections} needs {needed}"
    remedy = f"systemd: LimitNOFILE={needed}; or write max_connections = {max(most - _OTHER_FILES, 1) * processes}"
    # Where max_connections is not set the gateway takes fewer, and logs that.
    is_set = "max_connections" in settings.model_fields_set or most < 2 * _OTHER_FILES
    (check.fail if is_set else check.warn)(detail, remedy)


def user_of(name: str) -> UnixUser:
    """A user by name or number; empty: the one that runs the doctor.  Raises Problem."""
    if not name:
        return UnixUser(_user_name(os.geteuid()), os.geteuid(), frozenset([os.getegid(), *os.getgroups()]))
    if name.isdigit():  # users of containers often have no name
        return UnixUser(name, int(name), frozenset())
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Problem(f"there is no user {name!r}", "Name the gateway's user by --user") from None
    return UnixUser(name, entry.pw_uid, frozenset(os.getgrouplist(name, entry.pw_gid)))


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def check_files(settings: Settings, user: UnixUser, report: CheckReport) -> None:
    """The gateway may use the files and folders that the settings name, and their disks have room."""
    for name in _FILES:
        if (path := getattr(settings, name)) is not None:
            with report.check(name) as check:
                check_access(user, path, READ)
                check.ok(f"{path}, usable by {user.name}")
    for name in _FOLDERS:
        if (path := getattr(settings, name)) is not None:
            with report.check(name) as check:
                path = path.absolute()
                folder = path if path.exists() or not path.parent.exists() else path.parent
                check_access(user, folder, READ | WRITE | ENTER)
                check.ok(f"{folder}, usable by {user.name}")
                _check_room(name, folder, report)
    check = report.check("store")
    path = settings.store_file
    if path is None:
        if "store" in settings.model_fields_set:
            check.ok(MEMORY_ONLY)
        else:
            remedy = keep_messages()
            check.warn(MEMORY_ONLY, remedy[:1].upper() + remedy[1:])
        return
    with check:
        check_access(user, path.parent, READ | WRITE | ENTER)
        for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if each.exists():
                check_access(user, each, READ | WRITE)
        try:
            preflight.look(settings.store)
        except StoreError as error:
            remedy = "See docs/durability.md; `gateway store check` reads all of it"
            raise Problem(str(error), remedy) from None
        check.ok(f"{path}, usable by {user.name}")
        _check_room("store", path.parent, report)


def check_access(user: UnixUser, path: Path, rights: int) -> None:
    """Check that a user has these rights; raises Problem."""
    for each, needed in (*[(folder, ENTER) for folder in reversed(path.absolute().parents)], (path, rights)):
        try:
            found = each.stat()
        except FileNotFoundError:
            remedy = f"Make it, or change the setting: `install -d -o {user.name} -m 750 {each}` for a folder"
            raise Problem(f"there is no {each}", remedy) from None
        except OSError as error:
            detail = f"{each} cannot be checked: {(error.strerror or '').lower()}"
            raise Problem(detail, "Run the doctor as root") from None
        shift = 6 if found.st_uid == user.uid else 3 if found.st_gid in user.groups else 0
        missing = needed & ~(found.st_mode >> shift)
        if missing and user.uid != 0:
            words = " and ".join([word for bit, word, _ in _RIGHTS if missing & bit])
            letters = "".join([letter for bit, _, letter in _RIGHTS if missing & bit])
            owner = f"{_user_name(found.st_uid)} ({found.st_mode & 0o777:04o})"
            remedy = f"`chown {user.name} {each}`, or `chmod u+{letters} {each}` if {user.name} owns it"
            raise Problem(f"{user.name} may not {words} {each}, which belongs to {owner}", remedy)
    if rights & WRITE and os.statvfs(path).f_flag & os.ST_RDONLY:
        remedy = f"Mount it for writing (`mount -o remount,rw`), or name another folder; systemd: ReadWritePaths={path}"
        raise Problem(f"{path} is on a read-only file system", remedy)


def _check_room(name: str, folder: Path, report: CheckReport) -> None:
    check = report.check(f"{name} room")
    disk = os.statvfs(folder)
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    detail = f"{free >> 20} MiB of {size >> 20} MiB are free on the disk of {folder}"
    if free < min(RESERVE, size // 4):
        remedy = f"Free at least {RESERVE >> 20} MiB, or put {name} on another disk: with less, messages are refused"
        check.fail(detail, remedy)
    elif free < size * _LEAST_FREE:
        check.warn(detail, f"Free some, or put {name} on another disk, before messages are refused")
    else:
        check.ok(detail)


def check_settings(settings: Settings, now: float, report: CheckReport) -> None:
    """The warnings that the gateway logs at its start."""
    check = report.check("settings")
    try:
        certificates = listeners.read_certificates(settings)
    except StartError as error:
        check.fail(str(error), "Correct the file, or name another")
        return
    ends = certificates.warning() if certificates is not None else None
    warnings = list(listeners.warnings(settings, certificates))
    for sentence in warnings:
        detail, _, remedy = sentence.rpartition(": ")
        if sentence != ends:
            check.warn(detail, remedy[:1].upper() + remedy[1:])
    if certificates is not None and ends:
        remedy = "Renew it, check why it was not renewed by itself (certbot renew), and reload"
        of_certificate = report.check("certificate")
        (of_certificate.fail if certificates.ends <= now else of_certificate.warn)(ends, remedy)
    if not warnings:
        check.ok("the gateway has no warnings for them")


def check_pipeline(with_spark: bool, report: CheckReport) -> None:
    """Java for the jobs; Spark, which takes half a minute, only on demand."""
    if with_spark:
        for each in pipeline_doctor.examine():
            check = report.check(f"pipeline {each.what}")
            if each.ok:
                check.ok(each.detail)
            else:
                check.fail(each.detail, each.remedy)
        return
    check = report.check("pipeline Java")
    try:
        found = java.find()
        check.ok(f"{found.version} of {found.source}, {found.home}")
    except PipelineFailure as error:
        check.fail("none that Spark could use", f"{error}. All of it: --pipeline")
