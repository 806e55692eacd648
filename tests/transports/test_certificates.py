"""TlsCertificates: what is said of files that cannot be used, what a client's says of it, and reading them again."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.transports.wire import certificates as module
from gateway.transports.wire.certificates import CertificateError, CertificateFiles, TlsCertificates

from . import tls_files

parametrize = pytest.mark.parametrize


def lock(path: Path) -> None:
    """Give the key in that file a passphrase."""
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    form = serialization.PrivateFormat.PKCS8
    data = key.private_bytes(serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"word"))
    path.write_bytes(data)


def other_key(path: Path) -> None:
    path.write_bytes(tls_files.authority().issue_cert("other.example").private_key_pem.bytes())


def broken(path: Path) -> None:
    path.write_text("-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n")


def nothing(path: Path) -> None:
    path.write_text("nothing")


class TestFiles:
    def test_a_key_in_the_same_file(self, tmp_path: Path) -> None:
        files = tls_files.write(tmp_path)
        assert files.key is not None
        with files.certificate.open("ab") as file:
            file.write(files.key.read_bytes())
        assert TlsCertificates(CertificateFiles(files.certificate)).hosts == (tls_files.HOST, "127.0.0.1")

    @parametrize(
        ("name", "damage", "words"),
        [
            ("certificate", Path.unlink, "server.pem cannot be read: No such file or directory"),
            ("certificate", nothing, "server.pem has no certificate in PEM"),
            ("key", Path.unlink, "server.key cannot be read: No such file or directory"),
            ("key", nothing, "server.key has no private key in PEM"),
            ("key", lock, "server.key has a passphrase; store it without one"),
            ("key", other_key, "server.key is not that of the certificate in "),
            ("key", broken, "server.key, cannot be used: "),
            ("client_ca", Path.unlink, "clients.pem cannot be read: No such file or directory"),
            ("client_ca", nothing, "clients.pem has no certificate in PEM"),
        ],
    )
    def test_what_cannot_be_used(self, tmp_path: Path, name: str, damage: Callable[[Path], object], words: str) -> None:
        files = tls_files.write(tmp_path)
        damage(getattr(files, name))
        with pytest.raises(CertificateError, match=words) as caught:
            TlsCertificates(files)
        assert caught.value.setting == f"tls_{name}"

    @parametrize(("days", "words"), [(-1, "has expired: it is valid until"), (3, "expires soon"), (30, None)])
    def test_its_end(self, tmp_path: Path, days: int, words: str | None) -> None:
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=9)
        leaf = tls_files.authority().issue_cert(tls_files.HOST, not_before=begin, not_after=end)
        warning = tls_files.certificates(tmp_path, leaf).warning()
        if words is None:
            assert warning is None
        else:
            assert warning is not None
            assert words in warning


class TestContext:
    def test_no_clients(self, tmp_path: Path) -> None:
        context = tls_files.certificates(tmp_path).context("tcp")
        assert context.verify_mode is ssl.CERT_NONE
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION


class TestClient:
    def read(self, tmp_path: Path, leaf: trustme.LeafCert) -> object:
        data = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())
        return tls_files.certificates(tmp_path).client(data)

    def test_all_its_names(self, tmp_path: Path) -> None:
        leaf = tls_files.authority().issue_cert(
            "worker.example", "worker@example.org", "10.0.0.1", common_name="worker, one", organization_name="Ops"
        )
        found = self.read(tmp_path, leaf)
        assert isinstance(found, module.ClientCertificate)
        assert found.common_name == "worker, one"
        assert found.subject.startswith("CN=worker\\, one")
        assert found.names == ("dns:worker.example", "email:worker@example.org")
        assert found.expires > 2e9

    @parametrize("names", [None, b"\x30\x02\xa5\x00", b"nonsense"], ids=["none", "of a kind nobody reads", "broken"])
    def test_no_other_names(self, tmp_path: Path, names: bytes | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "worker")])
        begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + datetime.timedelta(days=1))
        if names is not None:
            identifier = x509.SubjectAlternativeName.oid
            builder = builder.add_extension(x509.UnrecognizedExtension(identifier, names), critical=False)
        data = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
        found = tls_files.certificates(tmp_path).client(data)
        assert found == module.ClientCertificate("CN=worker", "worker", (), 1_767_312_000.0)

    def test_nonsense_is_no_certificate(self, tmp_path: Path) -> None:
        assert tls_files.certificates(tmp_path).client(b"nonsense") is None


class TestReload:
    def test_what_cannot_be_used_changes_nothing(self, tmp_path: Path) -> None:
        found = tls_files.certificates(tmp_path)
        before = found.context("tcp")
        other_key(tmp_path / "server.key")
        fault = found.reload()
        assert fault is not None
        assert fault.startswith("tls_key: the key in ")
        assert found.hosts == (tls_files.HOST, "127.0.0.1")
        assert found.context("tcp") is before
