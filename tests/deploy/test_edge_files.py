"""Files for edges on other machines and for edges of cluster nodes: their schemas, and that both ends fit together."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from gateway.config.settings import Settings
from tests.clients.nginx import DEPLOY
from tests.deploy.test_container import BIN, IMAGE, LONGEST_DRAIN, checked, exposed, port_of, settings_of
from tests.deploy.test_units import UNIT, unit

PRIMARY, NODES, EDGES = (DEPLOY / f"kubernetes{name}.yaml" for name in ("", "-cluster", "-edges"))
COMPOSE, COMPOSE_NODES = DEPLOY / "compose-edge.yaml", DEPLOY / "compose-cluster.yaml"
SETTINGS = DEPLOY / "edge.toml"
PARTS = {"edge_certificate": "tls.crt", "edge_key": "tls.key", "edge_ca": "ca.crt"}


def with_edges(file: Path) -> str:
    """The same file as it is made for edges."""
    return subprocess.run(["sed", "-e", "s/#edges //", file], capture_output=True, text=True, check=True).stdout


def objects(text: str) -> dict[tuple[str, str], Any]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


def pod_of(found: dict[tuple[str, str], Any], kind: str, name: str) -> dict[str, Any]:
    pod: dict[str, Any] = found[kind, name]["spec"]["template"]["spec"]
    return pod


def check_files(settings: Settings, pod: dict[str, Any], secret: str) -> None:
    """The files of the link are those of that Secret."""
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "link"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "link"]
    assert volume["secret"]["secretName"] == secret
    assert {name: getattr(settings, name) for name in PARTS} == {
        name: Path(mount["mountPath"]) / file for name, file in PARTS.items()
    }
    assert f"kubectl create secret generic {secret} " in EDGES.read_text()


def test_schemas_are_content(tmp_path: Path) -> None:
    kubernetes, compose = [EDGES], [COMPOSE]
    for file in (PRIMARY, NODES, COMPOSE_NODES):
        made = tmp_path / file.name
        made.write_text(with_edges(file))
        (compose if file == COMPOSE_NODES else kubernetes).append(made)
    checked(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *map(str, compose))
    for file in kubernetes:
        checked(str(BIN / "kubernetes-validate"), "--strict", str(file))


def test_the_unit_is_that_of_the_gateway() -> None:
    """But for the command, the settings, and what a store needs."""
    own, keys = unit(DEPLOY / "stomp-gateway-edge.service"), unit(UNIT)
    assert own["ExecStart"] == keys["ExecStart"].replace("serve", "edge")
    assert own["Environment"] == f"GATEWAY_CONFIG=/etc/stomp-gateway/{SETTINGS.name}"
    assert keys.keys() - own.keys() == {"TimeoutStartSec", "OOMPolicy"}
    changed = {"ExecStart", "Environment", "Description", "After"}
    assert {key: value for key, value in own.items() if key not in changed} == {
        key: value for key, value in keys.items() if key in own and key not in changed
    }


def test_the_settings_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(SETTINGS.read_text(), tmp_path, monkeypatch)
    assert {port_of(settings, name) for name in ("tcp", "websocket", "http")} == exposed()
    assert settings.users_file is not None
    assert settings.users_file.parent == Path(f"/var/lib/{unit()['StateDirectory']}")


class TestCompose:
    SERVICE: ClassVar[dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]["edge"]

    def test_the_edge(self) -> None:
        service = self.SERVICE
        assert (service["image"], service["command"]) == (IMAGE, ["edge", "--config", SETTINGS.name])
        assert f"./{SETTINGS.name}:/etc/stomp-gateway/{SETTINGS.name}:ro" in service["volumes"]
        assert int(service["stop_grace_period"].removesuffix("s")) > LONGEST_DRAIN
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        values = {key.removeprefix("GATEWAY_").lower(): value for key, value in service["environment"].items()}
        assert values.keys() <= Settings.model_fields.keys()
        assert {name: Path(values[name]).name for name in PARTS} == PARTS

    def test_nodes_are_edges_of_each_other(self) -> None:
        services = yaml.safe_load(with_edges(COMPOSE_NODES))["services"]
        for name in ("one", "two"):
            values = services[name]["environment"]
            ports = {each.partition(":")[0]: each.partition(":")[2] for each in values["GATEWAY_EDGE_OF"].split(",")}
            assert ports.keys() == {"one", "two"}
            assert {*ports.values()} == {values["GATEWAY_EDGE_LISTEN"].partition(":")[2]}
            assert "./link:/run/secrets/link:ro" in services[name]["volumes"]


class TestKubernetes:
    FOUND: ClassVar[dict[tuple[str, str], Any]] = objects(EDGES.read_text())
    POD: ClassVar[dict[str, Any]] = pod_of(FOUND, "Deployment", "stomp-gateway-edge")

    def test_the_edges(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = settings_of(
            self.FOUND["ConfigMap", "stomp-gateway-edge"]["data"]["edge.toml"], tmp_path, monkeypatch
        )
        assert settings.is_edge
        check_files(settings, self.POD, "stomp-gateway-edge-link")
        (container,) = self.POD["containers"]
        assert (container["image"], container["args"]) == (IMAGE, ["edge", "--config", "edge.toml"])
        assert {port["containerPort"] for port in container["ports"]} == exposed()
        assert self.POD["terminationGracePeriodSeconds"] >= LONGEST_DRAIN + 5
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}

    def test_as_little_rights_as_the_gateway(self) -> None:
        primary = pod_of(objects(PRIMARY.read_text()), "StatefulSet", "stomp-gateway")
        assert self.POD["containers"][0]["securityContext"] == primary["containers"][0]["securityContext"]
        assert self.POD["securityContext"].items() <= primary["securityContext"].items()

    @pytest.mark.parametrize("file", [PRIMARY, NODES], ids=["primary", "nodes"])
    def test_the_other_end(self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = objects(with_edges(file))
        settings = settings_of(found["ConfigMap", "stomp-gateway"]["data"]["gateway.toml"], tmp_path, monkeypatch)
        check_files(settings, pod_of(found, "StatefulSet", "stomp-gateway"), "stomp-gateway-link")
        links = self.FOUND["Service", "stomp-gateway-links"]
        address = f"stomp-gateway-links:{links['spec']['ports'][0]['port']}"
        assert settings.edge_listen == [address.replace("stomp-gateway-links", "0.0.0.0")]
        assert f'edge_of = ["{address}"]' in EDGES.read_text()
        if file == NODES:
            assert settings.edge_of == [address]
            assert found["Service", "stomp-gateway-links"] == links
            rules = found["NetworkPolicy", "stomp-gateway"]["spec"]
            for way in ("ingress", "egress"):
                assert port_of(settings, "edge_listen") in {
                    each["port"] for rule in rules[way] for each in rule["ports"]
                }

    def test_each_lets_the_other_in(self) -> None:
        (out, _) = self.FOUND["NetworkPolicy", "stomp-gateway-edge"]["spec"]["egress"]
        (into,) = self.FOUND["NetworkPolicy", "stomp-gateway-links"]["spec"]["ingress"]
        assert out["ports"] == into["ports"] == [{"port": 61620, "protocol": "TCP"}]

    def test_its_comment_names_files(self) -> None:
        for name in re.findall(r"deploy/[\w.-]+\w", EDGES.read_text()):
            assert (DEPLOY.parent / name).is_file(), name
