"""The image, and what it is started by: Docker, compose, Kubernetes; their files are checked against the real schemas.

The Dockerfile's steps are carried out without an engine, and what they made is started (`image`, `container`).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gateway
from gateway.auth.passwords import hash_passcode
from gateway.cli.serve import SHUTDOWN_MARGIN
from gateway.config.settings import Settings, load
from gateway.runtime.gateway import LONGEST_WRITE
from tests.clients.driver import ROOT, tool
from tests.deploy.image import Build, Context, run_container
from tests.gateway_process import HOST, GatewayProcess
from tests.transports.peers import dial

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IMAGE = f"stomp-gateway:{gateway.__version__}"
LONGEST_DRAIN = Settings.model_fields["drain_timeout"].default + LONGEST_WRITE + SHUTDOWN_MARGIN


def checked(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr


class TestImage:
    @pytest.mark.long
    @pytest.mark.timeout(600)
    def test_it_is_built_and_runs(self, tmp_path: Path) -> None:
        """As a user without rights, on a file system that is read-only but for the volume and /tmp."""
        stage = Build(DOCKERFILE, ROOT, tmp_path / "stages").carry_out()
        assert (stage.upper / "opt/stomp-gateway/bin/gateway").is_file()
        assert list((stage.upper / "opt").rglob("gateway/static/vendor/stomp.umd.min.js")), "the pages' client is in it"
        assert not (stage.upper / "src").exists(), "what it was built of stays behind"
        volume = tmp_path / "volume"
        volume.mkdir()
        os.chown(volume, 10001, 10001)
        for folder in (tmp_path, *tmp_path.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                folder.chmod(0o755)
        seen = run_container(stage, volume)
        assert seen["greeting"] == "CONNECTED"
        assert seen["status"] == 0
        assert seen["writable"] == ["/tmp/x", "/var/lib/stomp-gateway/x"]
        assert [re.split(r"\s+", str(line))[1] for line in seen["rights"]] == ["10001", "0" * 16, "0" * 16]
        assert (volume / "store.db").stat().st_uid == 10001

    @pytest.mark.parametrize(
        ("path", "there"),
        [
            ("gateway/app.py", True),
            ("static/vendor/stomp.umd.min.js", False),
            ("gateway/__pycache__/app.cpython-311.pyc", False),
            ("users.txt", False),
            ("tests/install-tools", True),
            ("tests/spark.py", False),
            ("deploy/container.toml", True),
            ("deploy/lock/gateway.txt", True),
            ("deploy/compose.yaml", False),
        ],
    )
    def test_what_goes_in(self, path: str, *, there: bool) -> None:
        assert Context(ROOT).has(path) is there

    @pytest.mark.parametrize("name", ["gateway", "pipeline", "java", "otel", "build"])
    def test_what_is_locked(self, name: str) -> None:
        """All that pyproject.toml asks for, in versions that it allows; `make lock` renews it."""
        text = (DEPLOY / "lock" / f"{name}.txt").read_text()
        pins = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))
        assert len(re.findall(r"^\S+==.*(?:\n    --hash=sha256:\w{64}.*)+", text, re.MULTILINE)) >= len(pins)
        assert "://" not in text
        wanted = PROJECT["build-system"]["requires"]
        if name != "build":
            extra = PROJECT["project"]["optional-dependencies"].get(name, [])
            wanted = [*PROJECT["project"]["dependencies"], *extra]
        for requirement in map(Requirement, wanted):
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement

    def test_its_version_and_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = DOCKERFILE.read_text()
        assert f'org.opencontainers.image.version="{gateway.__version__}"' in text
        assert f"-t {IMAGE} ." in text
        settings = settings_of((DEPLOY / "container.toml").read_text(), tmp_path, monkeypatch)
        assert {port_of(settings, name) for name in ("tcp", "websocket", "http")} == exposed()
        state = Path("/var/lib/stomp-gateway")
        assert settings.users_file is not None
        assert settings.users_file.parent == Path(settings.store.removeprefix("sqlite:")).parent == state

    def test_queues_are_durable_everywhere(self) -> None:
        """In the image, in the cluster, and where somebody installs it by hand."""
        policy = '[[policy]]\nmatch = "/queue/#"\ndurable = true'
        for path in ("deploy/container.toml", "deploy/kubernetes.yaml", "docs/operations.md"):
            lines = [line.partition(" #")[0].strip() for line in (ROOT / path).read_text().splitlines()]
            assert policy in "\n".join(lines), path


def settings_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of such a gateway.toml alone."""
    for name in [each for each in os.environ if each.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    Path("gateway.toml").write_text(text)
    settings = load()
    assert settings.model_fields_set == tomllib.loads(text).keys()
    return settings


def port_of(settings: Settings, name: str) -> int:
    (address,) = getattr(settings, name)
    return int(address.rpartition(":")[2])


def exposed() -> set[int]:
    (words,) = re.findall(r"^EXPOSE (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    return {int(word) for word in words.split()}


class TestCompose:
    FILE = DEPLOY / "compose.yaml"
    SERVICES: ClassVar[dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]

    @pytest.mark.parametrize("file", ["compose.yaml", "compose-cluster.yaml"])
    def test_no_service_has_rights(self, file: str) -> None:
        for service in yaml.safe_load((DEPLOY / file).read_text())["services"].values():
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
            assert service["security_opt"] == ["no-new-privileges:true"]

    def test_the_gateway(self) -> None:
        service = self.SERVICES["gateway"]
        assert service["image"] == IMAGE
        assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
        assert ROOT / service["build"]["dockerfile"] == DOCKERFILE
        assert int(service["stop_grace_period"].removesuffix("s")) > LONGEST_DRAIN
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert {name.removeprefix("GATEWAY_").lower() for name in service["environment"]} <= set(Settings.model_fields)
        address = self.SERVICES["nginx"]["networks"]["inside"]["ipv4_address"]
        assert service["environment"]["GATEWAY_TRUSTED_PROXIES"] == address

    def test_nginx_understands_what_it_gets(self, tmp_path: Path) -> None:
        """The command itself, with the places of this machine, and a look instead of a start."""
        command = self.SERVICES["nginx"]["command"]
        script = command[-1].replace("/tmp", str(tmp_path))  # first: the places of this machine may be in there, too
        script = script.replace("/etc/nginx/stomp-gateway.conf", str(DEPLOY / "nginx.conf"))
        script = script.replace("nginx -c", f"{tool('nginx')} -t -c")
        checked(*command[:-1], script)
        written = (tmp_path / "nginx.conf").read_text()
        gateway_at = self.SERVICES["gateway"]["networks"]["inside"]["ipv4_address"]
        assert re.findall(r"^ +server (\S+);", written, re.MULTILINE) == [f"{gateway_at}:15674", f"{gateway_at}:8000"]
        assert "listen 8080;" in written
        assert "/var/l" not in re.sub(r"#.*", "", written), "a place that is read-only there"


def objects(text: str) -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def with_tls(file: Path) -> str:
    """The same file as its own head says that it is made for TLS."""
    (script,) = re.findall(r"sed (-e .*) deploy/", file.read_text())
    return subprocess.run(["sed", *shlex.split(script), file], capture_output=True, text=True, check=True).stdout


def bring(folder: Path, name: str, text: str) -> None:
    (folder / f"..{name}").mkdir(parents=True)
    (folder / f"..{name}" / "gateway.toml").write_text(text)
    (folder / "..next").symlink_to(f"..{name}")
    (folder / "..next").rename(folder / "..data")


async def answer_to_send(running: GatewayProcess, destination: str) -> str:
    peer = await dial("tcp", f"{HOST}:{running.tcp_port}")
    await peer.connect(login="ada", passcode="wonderland")
    await peer.send_frame("SEND", destination=destination, receipt="r")
    answer = await peer.receive()
    await peer.aclose()
    assert answer is not None
    return answer.command


def test_linter_and_schemas_are_content(tmp_path: Path) -> None:
    (tmp_path / "tls.yaml").write_text(with_tls(TestKubernetes.FILE))
    checked(str(BIN / "hadolint"), "--failure-threshold", "style", str(DOCKERFILE))
    checked(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(TestCompose.FILE))
    for file in (TestKubernetes.FILE, tmp_path / "tls.yaml"):
        checked(str(BIN / "kubernetes-validate"), "--strict", str(file))


class TestKubernetes:
    FILE = DEPLOY / "kubernetes.yaml"
    OBJECTS: ClassVar[dict[str, Any]] = objects(FILE.read_text())
    POD: ClassVar[dict[str, Any]] = OBJECTS["StatefulSet"]["spec"]["template"]["spec"]
    CONTAINER: ClassVar[dict[str, Any]] = POD["containers"][0]
    TLS: ClassVar[dict[str, Any]] = objects(with_tls(FILE))

    def test_its_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = settings_of(self.OBJECTS["ConfigMap"]["data"]["gateway.toml"], tmp_path, monkeypatch)
        mounts = {mount["name"]: Path(mount["mountPath"]) for mount in self.CONTAINER["volumeMounts"]}
        assert settings.users_file == mounts["secret"] / "users.txt"
        assert Path(settings.store.removeprefix("sqlite:")).parent == mounts["state"]
        ports = {port["containerPort"] for port in self.CONTAINER["ports"]}
        assert ports == {port_of(settings, name) for name in ("tcp", "websocket", "http")} == exposed()
        assert {port["port"] for port in self.OBJECTS["Service"]["spec"]["ports"]} == ports

    def test_its_settings_with_tls(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = settings_of(self.TLS["ConfigMap"]["data"]["gateway.toml"], tmp_path, monkeypatch)
        pod = self.TLS["StatefulSet"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        mounts = {mount["name"]: Path(mount["mountPath"]) for mount in container["volumeMounts"]}
        assert {each["name"] for each in pod["volumes"]} | {"state"} == mounts.keys()
        # As Kubernetes calls them in a Secret of its type for that, which cert-manager writes.
        assert (settings.tls_certificate, settings.tls_key) == (mounts["tls"] / "tls.crt", mounts["tls"] / "tls.key")
        ports = {port["containerPort"] for port in container["ports"]}
        assert ports == {port_of(settings, name) for name in ("tcp_tls", "websocket_tls", "http")}
        assert {port["port"] for port in self.TLS["Service"]["spec"]["ports"]} == ports
        assert {str(address) for address in settings.exposed} == {"0.0.0.0:61614", "0.0.0.0:15673"}

    @pytest.mark.parametrize("chosen", [OBJECTS, TLS], ids=["plain", "tls"])
    def test_ports_have_their_names_and_what_changes_comes_into_the_pod(self, chosen: dict[str, Any]) -> None:
        """A file that is mounted alone stays as it was; a folder within another one cannot be mounted."""
        (container,) = chosen["StatefulSet"]["spec"]["template"]["spec"]["containers"]
        names = {port["name"] for port in container["ports"]}
        assert {port["targetPort"] for port in chosen["Service"]["spec"]["ports"]} == names
        rules = chosen["NetworkPolicy"]["spec"]["ingress"]
        assert {port["port"] for rule in rules for port in rule["ports"]} == names
        assert not [mount for mount in container["volumeMounts"] if "subPath" in mount]
        places = [Path(mount["mountPath"]) for mount in container["volumeMounts"]]
        assert not [place for place in places if set(place.parents) & set(places)]
        assert Path("/etc/stomp-gateway") in places
        assert "WORKDIR /etc/stomp-gateway\n" in DOCKERFILE.read_text(), "whose gateway.toml is read"

    def test_a_new_config_map_counts_after_sighup(self, tmp_path: Path) -> None:
        """As the kubelet brings it: a new folder, and a link that changes over to it at once."""
        text = self.OBJECTS["ConfigMap"]["data"]["gateway.toml"]
        folder, users = tmp_path / "settings", tmp_path / "users.txt"
        users.write_text(f"ada:{hash_passcode('wonderland')}\n")
        bring(folder, "1", text + '[[rule]]\ndestination = "/queue/old"\nallow = ["send"]\n')
        (folder / "gateway.toml").symlink_to("..data/gateway.toml")
        settings = {"users_file": users, "store": f"sqlite:{tmp_path / 'store.db'}"}
        with GatewayProcess(folder, settings).running() as running:
            assert trio.run(answer_to_send, running, "/queue/new") == "ERROR"
            bring(folder, "2", text + '[[rule]]\ndestination = "/queue/new"\nallow = ["send"]\n')
            os.kill(running.pid, signal.SIGHUP)
            deadline = time.monotonic() + 20
            while '"event":"reloaded"' not in running.log.replace(": ", ":") and time.monotonic() < deadline:
                time.sleep(0.02)
            assert trio.run(answer_to_send, running, "/queue/new") == "RECEIPT"
            assert trio.run(answer_to_send, running, "/queue/old") == "ERROR"

    def test_one_broker_with_time_to_drain_and_without_rights(self) -> None:
        """As Kubernetes' own "restricted" profile wants it."""
        assert self.OBJECTS["StatefulSet"]["spec"]["replicas"] == 1
        assert self.CONTAINER["image"] == IMAGE
        kind, seconds = self.CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
        assert kind == "sleep"
        assert self.POD["terminationGracePeriodSeconds"] >= LONGEST_DRAIN + int(seconds)
        assert self.CONTAINER["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        wanted = self.POD["securityContext"]
        assert wanted["runAsNonRoot"] is True
        assert wanted["seccompProfile"] == {"type": "RuntimeDefault"}
        assert f"USER {wanted['runAsUser']}:{wanted['runAsGroup']}" in DOCKERFILE.read_text()
        assert (self.POD["automountServiceAccountToken"], self.POD["enableServiceLinks"]) == (False, False)

    def test_probes(self) -> None:
        """A gateway that is not ready keeps its sessions, so nothing but a dead one is started anew."""
        for probe, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
            assert self.CONTAINER[f"{probe}Probe"]["httpGet"] == {"path": path, "port": "http"}
