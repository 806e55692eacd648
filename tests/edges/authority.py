"""Certificates for links between machines."""

from __future__ import annotations

from pathlib import Path

import trustme

from tests.gateway_process import HOST, free_ports


class Authority:
    """Signs the certificates of both ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(folder / "ca.pem")

    def files(self, name: str, host: str = HOST) -> dict[str, object]:
        """The settings that name the files of one end."""
        issued = self._authority.issue_cert(host, common_name=name)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return {"edge_certificate": certificate, "edge_key": key, "edge_ca": self._folder / "ca.pem"}

    def nodes(self, *names: str) -> dict[str, dict[str, object]]:
        """The settings by which each node of a cluster is an edge of the primary."""
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        everywhere = ",".join(f"{HOST}:{port}" for port in ports.values())
        return {
            name: {"edge_listen": f"{HOST}:{port}", "edge_of": everywhere, **self.files(name)}
            for name, port in ports.items()
        }
