"""Settings of a cluster that contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.settings import SettingsError, load

NODE = 'cluster = "a"\nstore = "sqlite:copy.db"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cluster_tls_first = true", "it needs TLS: set cluster_ca, or cluster_tls = true"),
        ('cluster_certificate = "c.pem"\ncluster_key = "k.pem"', "it needs TLS: set cluster_ca"),
        ('cluster_tls = true\ncluster_certificate = "c.pem"', "cluster_certificate and cluster_key need each other"),
        ('cluster_standby_listens = false\ntcp = "systemd:tcp"', "systemd listens on its sockets all the time"),
        ("cluster_replicas = 1", "one or two replicas lose the log with a server"),
        ('cluster_user = "u"\ncluster_token = "t"', "the NATS servers want one kind of credentials"),
    ],
)
def test_conflicts(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "gateway.toml").write_text(NODE + text)
    with pytest.raises(SettingsError, match=sentence):
        load()


@pytest.mark.parametrize("text", ["cluster_tls = true", 'cluster_ca = "ca.pem"'])
def test_tls_from_the_first_byte_on(tmp_path: Path, text: str) -> None:
    (tmp_path / "gateway.toml").write_text(f"{NODE}{text}\ncluster_tls_first = true")
    assert load().cluster_tls_first
