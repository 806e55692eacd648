"""Section of the settings: the cluster.  A part of `gateway.config.settings.Settings`, as those of `sections.py`."""

import socket
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gateway.config.kinds import KIB, MIB, Addresses, Place, Size, Token
from gateway.config.values import Address

_NAME = r"^[A-Za-z0-9_-]{0,32}$"
_WORDS = "up to 32 letters, digits, - and _"


class ClusterSettings(BaseModel):
    """A cluster: several gateways, of which one decides, and the NATS servers that hold their log."""

    model_config = ConfigDict(defer_build=True)

    cluster: str = Field("", pattern=_NAME, description=_WORDS)
    """Name of the [cluster](cluster.md) that this gateway is a node of. Empty: it is none. The file of `store` is then
    this node's copy of the cluster's log."""

    cluster_node: str = Field("", pattern=_NAME, description=_WORDS)
    """Name of this node, unique in its cluster. Empty: the machine's host name."""

    cluster_address: str = ""
    """Address of this node that clients of a standby are told, for people to read. Empty: the first STOMP listener."""

    cluster_url: str = Field("", pattern=r"^(https?://[^\s/]+/?)?$", description="like https://node-a.example.org")
    """URL of this node's pages, which the console of a standby links. Empty: `http://` and the first address of
    `http`."""

    cluster_servers: Addresses = Field(["127.0.0.1:4222"])
    """Addresses of the NATS servers."""

    cluster_user: str = ""
    """User of the NATS servers, with cluster_password."""

    cluster_password: Token = Field("", repr=False)
    """Password of cluster_user."""

    cluster_token: Token = Field("", repr=False)
    """Token of the NATS servers, where they want one."""

    cluster_credentials: Place = None
    """Credentials file of NATS (JWT and NKey), or a file with the seed of an NKey."""

    cluster_ca: Place = None
    """File of the authorities, in PEM, that sign the certificates of the NATS servers. None: no TLS, unless
    cluster_tls."""

    cluster_tls: bool = False
    """Whether the NATS servers are reached with TLS; without cluster_ca, the machine's authorities count."""

    cluster_tls_first: bool = False
    """Whether the NATS servers begin with TLS at once (their `handshake_first`). Without it, such servers do not
    answer."""

    cluster_certificate: Place = None
    """File of this node's certificate chain for the NATS servers, in PEM, with cluster_key."""

    cluster_key: Place = None
    """File of the private key of cluster_certificate, in PEM."""

    cluster_replicas: Annotated[int, Field(ge=1, le=5)] = 3
    """NATS servers that hold the log. A commit counts when a majority has it."""

    cluster_replicas_anyway: bool = False
    """Whether cluster_replicas may be 1 or 2, which no loss of a server survives."""

    cluster_standby_listens: bool = True
    """Whether a standby listens for STOMP, to tell clients where the primary is. False: it refuses connections, for
    balancers that know a node by its port alone, like the `stream` of nginx."""

    cluster_snapshot_after: Annotated[Size, Field(ge=64 * KIB, le=1024 * 1024 * MIB)] = 256 * MIB
    """Bytes by which the log grows until a standby makes a snapshot, after two of which it is cut. If twice the size of
    the node's file is more, that counts."""

    @property
    def node_name(self) -> str:
        """The name of this node."""
        return self.cluster_node or "".join([each if each.isalnum() or each in "-_" else "-" for each in _host()])[:32]

    def _cluster_conflicts(self, store: str, listeners: Sequence[str]) -> Iterator[tuple[object, Sequence[str], str]]:
        """As `Settings._conflicts`.  `store`: that setting.  `listeners`: addresses of STOMP."""
        reason = 'a node keeps a copy of the log: write store = "sqlite:PATH" with the path of a new file'
        yield self.cluster and store == "memory", ("cluster", "store"), reason
        reason = "one or two replicas lose the log with a server: write 3, or cluster_replicas_anyway = true"
        too_few = self.cluster and self.cluster_replicas < 3 and not self.cluster_replicas_anyway
        yield too_few, ["cluster_replicas"], reason
        reason = "systemd listens on its sockets all the time: write the addresses themselves, or leave it out"
        is_systemd = self.cluster and any(Address.parse(each).name for each in listeners)
        yield is_systemd and not self.cluster_standby_listens, ["cluster_standby_listens"], reason
        kinds = ("cluster_user", "cluster_token", "cluster_credentials")
        given = [name for name in kinds if getattr(self, name)]
        yield len(given) > 1, given, "the NATS servers want one kind of credentials"
        reason = "it needs TLS: set cluster_ca, or cluster_tls = true"
        no_tls = not (self.cluster_tls or self.cluster_ca)
        for name in ("cluster_tls_first", "cluster_certificate"):
            yield bool(getattr(self, name)) and no_tls, [name], reason
        reason = "cluster_certificate and cluster_key need each other"
        yield bool(self.cluster_certificate) != bool(self.cluster_key), ("cluster_certificate", "cluster_key"), reason

    def cluster_warnings(self, listeners: Sequence[str]) -> Iterator[str]:
        """A sentence for each setting that does not do what it seems to: the problem, a colon, the remedy.

        `listeners`: addresses of STOMP.
        """
        if not self.cluster:
            given = [
                name for name in ClusterSettings.model_fields if name in self.model_fields_set and name != "cluster"
            ]
            if given:
                yield f"{', '.join(given)} has no effect without a cluster: set cluster, or leave it out"
            return
        if self.cluster_replicas < 3:
            replicas = self.cluster_replicas
            yield f"cluster_replicas is {replicas}, so messages are lost with a NATS server: run three, and set it to 3"
        elif len(self.cluster_servers) == 1:
            yield "cluster_servers names one NATS server, and this node stops with that one: name all of them"
        elsewhere = [each for each in self.cluster_servers if not Address.parse(each).is_loopback]
        if not elsewhere:
            return
        if not (self.cluster_tls or self.cluster_ca):
            yield f"messages go to {', '.join(elsewhere)} without TLS: set cluster_ca"
        told = self.cluster_address or next(iter(listeners), "")
        if _only_here(told):
            yield f"a standby tells its clients {told}, where other machines cannot connect: set cluster_address"


def _only_here(text: str) -> bool:
    """True if an address is of use on this machine alone; a text of another form may be right."""
    try:
        address = Address.parse(text)
    except ValueError:
        return False
    return address.is_loopback or address.host in ("0.0.0.0", "::")


def _host() -> str:
    return socket.gethostname().partition(".")[0]
