"""Section of the settings: edges.  A part of `gateway.config.settings.Settings`, as those of `sections.py`."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict, Field

from gateway.config.kinds import Addresses, Edges, Place

_FILES = ("edge_certificate", "edge_key", "edge_ca")


class EdgeSettings(BaseModel):
    """Edges: processes that own the sockets of clients, on this machine and on others."""

    model_config = ConfigDict(defer_build=True)

    edges: Edges = 0
    """Processes that own the sockets of clients, beside the one that decides ([edges](edges.md)). 0: that one has the
    sockets, too. `auto`: one less than the machine has processors, at least 1."""

    edge_listen: Addresses = Field([])
    """Addresses at which edges on other machines connect, with TLS. Empty: there are none."""

    edge_of: Addresses = Field([])
    """Addresses at which the gateway listens that this one is an edge of (its edge_listen): it has the sockets of
    clients, and everything else is there. Of several the first that answers counts. In a cluster, those of all nodes:
    each node is an edge of the one that is primary. Empty: it is none."""

    edge_certificate: Place = None
    """File of this machine's certificate chain for links between edges and their primary, in PEM. Both ends need one;
    that of the primary names its host."""

    edge_key: Place = None
    """File of the private key of edge_certificate, in PEM."""

    edge_ca: Place = None
    """File of the authorities, in PEM, that sign the certificates of both ends."""

    def _edge_conflicts(self, given: Sequence[str]) -> Iterator[tuple[object, Sequence[str], str]]:
        """As `Settings._conflicts`.  `given`: the settings that have a value of their own."""
        missing = [name for name in _FILES if getattr(self, name) is None]
        asks = next((name for name in ("edge_listen", "edge_of") if getattr(self, name)), "")
        yield asks and missing, [asks], f"links between machines need TLS at both ends: set {', '.join(missing)}"
        elsewhere = (
            "store",
            "cluster",
            "journal",
            "handlers",
            "rule",
            "policy",
            "edges",
            "edge_listen",
            "trace_endpoint",
            "events",
        )
        wrong = [name for name in elsewhere if name in given]
        is_edge = self.edge_of and "cluster" not in given
        yield is_edge and wrong, wrong, "the gateway that edge_of names has that: leave it out here"
        reason = "the primary has to listen for the edges of all nodes: set edge_listen"
        yield self.edge_of and "cluster" in given and not self.edge_listen, ["edge_of"], reason
