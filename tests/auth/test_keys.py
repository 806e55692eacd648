"""The file of keys: what it may hold, and what is refused."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from gateway.auth.keys import read_keys
from gateway.files import FileFault

from .issuer import LONG_SECRET, SECRET, jwk, jwks, openssh, private, private_octets, public_der, public_pem

RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def algorithms(path: Path, content: str | bytes) -> list[set[str]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [set(key.algorithms) for key in read_keys(path)]


def fault(path: Path, content: str | bytes) -> str:
    with pytest.raises(FileFault) as found:
        algorithms(path, content)
    assert str(found.value).startswith(f"{path} ")
    return str(found.value).removeprefix(f"{path} ")


def certificate(encoding: serialization.Encoding) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, private("P-256").public_key(), 1, now, now + datetime.timedelta(1))
    return builder.sign(private("P-256"), hashes.SHA256()).public_bytes(encoding)


class TestContents:
    @pytest.mark.parametrize(
        ("kind", "found"),
        [("RSA", RSA), ("P-256", {"ES256"}), ("P-384", {"ES384"}), ("P-521", {"ES512"}), ("Ed25519", {"EdDSA"})],
    )
    def test_pem_and_jwk(self, path: Path, kind: str, found: set[str]) -> None:
        assert algorithms(path, f"\n# the old one\n{public_pem(kind)}# another\r\n{public_pem('RSA')}") == [found, RSA]
        assert algorithms(path, jwks(jwk(kind))) == [found]
        assert algorithms(path, jwks(jwk(kind))[10:-2].encode("utf-8-sig")) == [found], "one alone"
        assert algorithms(path, certificate(serialization.Encoding.PEM)) == [{"ES256"}]
        path.write_text(jwks(jwk(kind), jwk(kind)))
        with pytest.raises(FileFault, match=r"has 2 keys, and may have at most 1$"):
            read_keys(path, 1)

    @pytest.mark.parametrize(
        ("secret", "found"),
        [
            (SECRET + "\r\n", {"HS256"}),
            ("x" * 48, {"HS256", "HS384"}),
            (LONG_SECRET, {"HS256", "HS384", "HS512"}),
            (bytes(range(255, 223, -1)), {"HS256"}),
        ],
    )
    def test_secret(self, path: Path, secret: str | bytes, found: set[str]) -> None:
        assert algorithms(path, secret) == [found]
        assert SECRET not in repr(read_keys(path))

    def test_jwks_of_many_kinds(self, path: Path) -> None:
        octets = base64.urlsafe_b64encode(SECRET.encode()).decode()
        text = jwks(
            jwk("RSA", kid="a", alg="RS256", use="sig"),
            jwk("P-256", kid="b", key_ops=["verify"]),
            jwk("RSA", kid="c", use="enc", alg="RSA-OAEP"),
            jwk("RSA", kid="d", alg="RSA-OAEP-256"),
            jwk("P-256", kid="e", key_ops=["encrypt"]),
            {"kty": "EC", "crv": "secp256k1", "x": "", "y": ""},
            {"kty": "OKP", "crv": "X25519", "x": ""},
            {"kty": "new"},
            {"kty": "oct", "k": octets, "kid": 5},
        )
        assert algorithms(path, text) == [{"RS256"}, {"ES256"}, {"HS256"}]
        assert [key.kid for key in read_keys(path)] == ["a", "b", ""]


class TestFaults:
    def test_private_keys(self, path: Path) -> None:
        for content in (
            private_octets("P-256"),
            public_pem("RSA").encode() + private_octets("RSA"),
            jwks(jwk("RSA"), jwk("Ed25519", secret=True)),
        ):
            assert fault(path, content).startswith("holds a private key")

    def test_a_public_key_is_no_secret(self, path: Path) -> None:
        for content in (
            public_der("RSA"),
            certificate(serialization.Encoding.DER),
            private_octets("P-256", serialization.Encoding.DER),
            base64.encodebytes(public_der("P-256")),
            public_pem("RSA").encode("utf-16"),
            b"keys = " + jwks(jwk("RSA")).encode(),
        ):
            assert "write it as PEM" in fault(path, content)
        for kind in ("RSA", "P-256", "Ed25519"):
            assert "ssh-keygen -e" in fault(path, b"# of the issuer\n" + openssh(kind))

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ("x" * 31 + "\n", "holds a secret of 31 bytes, and 32 are needed"),
            (jwks({"kty": "oct", "k": "c2hvcnQ"}), "holds a secret of 5 bytes, and 32 are needed"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n", "looks like PEM but holds no whole key"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "has a PUBLIC KEY that cannot be read"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "has a CERTIFICATE that cannot be"),
            ("{", "looks like a JWKS but is no JSON"),
            ("{}", "has no key that verifies signatures"),
            ('{"keys": 5}', "is no JWKS: keys must be an array"),
            ('{"keys": [5]}', "is no JWKS: key 1 must be an object"),
            (jwks(jwk("RSA"), {"kty": "RSA"}), "has a key that cannot be read: number 2"),
            (jwks(jwk("RSA"), jwk("RSA") | {"alg": ["RS256"]}), "has a key that cannot be read: number 2"),
            (jwks(jwk("RSA") | {"key_ops": "verify"}), "has a key that cannot be read: number 1"),
            (public_pem("RSA-1024"), "has an RSA key of 1024 bits, and 2048 are needed"),
            (public_pem("k1"), "has a key of another kind than RSA, P-256, P-384, P-521 and Ed25519"),
        ],
    )
    def test_others(self, path: Path, content: str, sentence: str) -> None:
        assert fault(path, content).startswith(sentence)
