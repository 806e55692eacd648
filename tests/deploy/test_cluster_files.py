"""Files for a cluster, checked by their schemas and by the programs that read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from gateway.config.settings import Settings
from tests.clients.driver import tool
from tests.clients.nginx import DEPLOY, replaced
from tests.cluster.servers import program
from tests.deploy.test_container import BIN, DOCKERFILE, IMAGE, LONGEST_DRAIN, checked, exposed, objects, settings_of

COMPOSE = DEPLOY / "compose-cluster.yaml"
KUBERNETES = DEPLOY / "kubernetes-cluster.yaml"
NATS = DEPLOY / "nats-server.conf"
HAPROXY = DEPLOY / "haproxy.cfg"
NOTICED = {"write_deadline": "1s", "ping_interval": "1s", "ping_max": "2"}
"""Settings of NATS by which a machine that is gone without a word is noticed in seconds."""


def test_schemas_are_content() -> None:
    checked(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE))
    checked(str(BIN / "kubernetes-validate"), "--strict", str(KUBERNETES))


class TestPrograms:
    """Each reads its file, with names of this machine in it."""

    def test_nats(self, tmp_path: Path) -> None:
        file = tmp_path / "nats-server.conf"
        file.write_text(replaced(NATS, {"/var/lib/nats": str(tmp_path)}))
        checked(program(), "--config", str(file), "--name", "nats-1", "-t")
        assert re.search(r"^    sync_interval: always$", NATS.read_text(), re.MULTILINE)
        assert NOTICED.items() <= dict(re.findall(r'^(\w+): "?(\w+)"?$', NATS.read_text(), re.MULTILINE)).items()

    def test_haproxy(self, tmp_path: Path) -> None:
        file = tmp_path / "haproxy.cfg"
        file.write_text(re.sub(r"\b(?:one|two):(?=\d)", "127.0.0.1:", HAPROXY.read_text()))
        checked(tool("haproxy"), "-c", "-f", str(file))

    def test_nginx(self, tmp_path: Path) -> None:
        text = re.sub(r"\b(?:one|two):(?=\d)", "127.0.0.1:", (DEPLOY / "nginx-cluster.conf").read_text())
        for place in ("/run/nginx.pid", "/var/log/nginx", "/var/lib/nginx", "/etc/nginx/stomp-gateway"):
            text = text.replace(place, f"{tmp_path}/{Path(place).name if '.' in place else ''}")
        file = tmp_path / "nginx.conf"
        file.write_text(text)
        checked(tool("nginx"), "-t", "-c", str(file), "-e", str(tmp_path / "error.log"))


class TestText:
    def test_all_lead_to_the_ports_of_the_gateway(self) -> None:
        """Each backend has both nodes, at the ports that the image has, too."""
        for file in (HAPROXY, DEPLOY / "nginx-cluster.conf"):
            servers = re.findall(r"^ +server (?:\w+ )?(one|two):(\d+)", file.read_text(), re.MULTILINE)
            ports = {int(port) for _, port in servers}
            assert ports <= exposed()
            assert {(name, port) for name, port in servers} == {(n, str(p)) for n in ("one", "two") for p in ports}

    def test_what_is_not_ready_gets_no_client(self) -> None:
        text = HAPROXY.read_text()
        assert "    option httpchk GET /readyz\n    http-check expect status 200\n" in text
        assert text.count(" track http/one") == text.count(" track http/two") == 2

    @pytest.mark.parametrize("file", [HAPROXY, DEPLOY / "nginx-cluster.conf"], ids=lambda file: file.stem)
    def test_metrics_are_not_for_the_world(self, file: Path) -> None:
        text = file.read_text()
        assert re.search(r"location = /metrics \{\s*deny all;|http-request deny if \{ path /metrics \}", text)


class TestCompose:
    SERVICES: ClassVar[dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]

    def test_the_gateways(self) -> None:
        stores = set()
        for name in ("one", "two"):
            service = self.SERVICES[name]
            assert service["image"] == IMAGE
            assert int(service["stop_grace_period"].removesuffix("s")) > LONGEST_DRAIN
            values = {key.removeprefix("GATEWAY_").lower(): value for key, value in service["environment"].items()}
            assert values.keys() <= Settings.model_fields.keys()
            assert values["cluster_node"] == name
            assert values["trusted_proxies"] == self.SERVICES["haproxy"]["networks"]["inside"]["ipv4_address"]
            assert values["cluster_address"] in self.SERVICES["haproxy"]["ports"][1], "clients come by HAProxy alone"
            assert f'password: "{values["cluster_password"]}"' in NATS.read_text()
            servers = [each.partition(":")[0] for each in values["cluster_servers"].split(",")]
            assert servers == [each for each in self.SERVICES if each.startswith("nats-")]
            stores.add(values["store"])
        assert len(stores) == 2

    def test_the_servers(self) -> None:
        routes = re.findall(r"@(nats-\d):6222", NATS.read_text())
        assert routes == [each for each in self.SERVICES if each.startswith("nats-")]
        for name in routes:
            service = self.SERVICES[name]
            assert service["command"][-1] == name
            assert f"{name}:/var/lib/nats" in service["volumes"]


class TestKubernetes:
    OBJECTS: ClassVar[dict[str, Any]] = objects(KUBERNETES.read_text())
    POD: ClassVar[dict[str, Any]] = OBJECTS["StatefulSet"]["spec"]["template"]["spec"]
    CONTAINER: ClassVar[dict[str, Any]] = POD["containers"][0]

    def test_its_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = settings_of(self.OBJECTS["ConfigMap"]["data"]["gateway.toml"], tmp_path, monkeypatch)
        mounts = {mount["name"]: Path(mount["mountPath"]) for mount in self.CONTAINER["volumeMounts"]}
        assert settings.users_file == mounts["secret"] / "users.txt"
        assert Path(settings.store.removeprefix("sqlite:")).parent == mounts["state"]
        assert {port["containerPort"] for port in self.CONTAINER["ports"]} == exposed()
        assert settings.cluster
        (names,) = [each for each in self.POD["volumes"] if each["name"] == "state"]
        assert "emptyDir" in names, "the log is with the NATS servers"

    def test_a_standby_is_not_ready_and_holds_up_nothing(self) -> None:
        spec = self.OBJECTS["StatefulSet"]["spec"]
        assert (spec["replicas"], spec["podManagementPolicy"]) == (2, "Parallel")
        assert spec["updateStrategy"] == {"type": "OnDelete"}
        assert self.CONTAINER["image"] == IMAGE
        assert self.POD["terminationGracePeriodSeconds"] >= LONGEST_DRAIN
        assert self.CONTAINER["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
        for probe in ("startup", "liveness"):
            assert self.CONTAINER[f"{probe}Probe"]["httpGet"] == {"path": "/healthz", "port": "http"}

    def test_it_has_no_rights_and_reaches_the_servers(self) -> None:
        assert self.CONTAINER["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        wanted = self.POD["securityContext"]
        assert wanted["runAsNonRoot"] is True
        assert f"USER {wanted['runAsUser']}:{wanted['runAsGroup']}" in DOCKERFILE.read_text()
        ports = {each["port"] for rule in self.OBJECTS["NetworkPolicy"]["spec"]["egress"] for each in rule["ports"]}
        assert ports == {4222, 53}

    def test_the_values_of_the_chart_are_yaml(self) -> None:
        lines = re.findall(r"^#   ((?:config|  .*|podTemplate).*)$", KUBERNETES.read_text(), re.MULTILINE)
        values = yaml.safe_load("\n".join([line for line in lines if "kubectl" not in line and "deploy" not in line]))
        assert values["config"]["jetstream"]["merge"] == {"sync_interval": "always"}
        assert {name: str(value) for name, value in values["config"]["merge"].items()} == NOTICED
        assert values["config"]["cluster"] == {"enabled": True, "replicas": 3}
