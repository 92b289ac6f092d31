"""Clients with a certificate at nimbus, over real TLS: roles, revoking, and every certificate that is refused."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aiostorm import Cluster
from aiostorm.cluster import ClusterError
from aiostorm.cluster.access import DeniedError, Role
from aiostorm.cluster.coordination import UnavailableError
from aiostorm.cluster.nimbus import OrderError
from aiostorm.runtime import LoopClock
from aiostorm.transport import (
    Credentials,
    CredentialsError,
    NetworkError,
    Security,
    TlsFiles,
    fingerprint_in,
    new_authority,
    new_certificate,
    new_client_certificate,
    open_network,
)

from .served import Place, place

pytestmark = pytest.mark.sockets

DAY_S = 86_400.0


class Later(LoopClock):
    """Two days later, when the certificates of these tests have ended."""

    def now(self) -> float:
        return super().now() + 2 * DAY_S


class Authority:
    """A CA, and the folders of those to whom it gives certificates."""

    def __init__(self, folder: Path, name: str = "prod") -> None:
        self.folder = folder
        self.name = name
        self.made = new_authority(name, time.time(), 100)

    def client(self, role: str, name: str = "ann", now_s: float | None = None) -> Path:
        made = new_client_certificate(
            self.made.certificate, self.made.key, name, role, time.time() if now_s is None else now_s, 2
        )
        return self.written(f"{name}-{role}", made.certificate, made.key.reveal())

    def node(self, name: str, *roles: str) -> Path:
        made = new_certificate(self.made.certificate, self.made.key, name, ("127.0.0.1",), time.time(), 2, roles)
        return self.written(name, made.certificate, made.key.reveal())

    def with_subject(self, name: str, *subject: tuple[x509.ObjectIdentifier, str]) -> Path:
        """Any subject, as the owner of a CA could write it with other tools."""
        key = ec.generate_private_key(ec.SECP256R1())
        ca = x509.load_pem_x509_certificate(self.made.certificate)
        signer = serialization.load_pem_private_key(self.made.key.reveal(), password=None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        now = datetime.fromtimestamp(int(time.time()), UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(kind, value) for kind, value in subject]))
            .issuer_name(ca.subject)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=2))
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .sign(signer, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self.written(name, made.public_bytes(pem), private)

    def written(self, name: str, certificate: bytes, key: bytes, ca: bytes | None = None) -> Path:
        folder = self.folder / f"{self.name}-{name}"
        folder.mkdir(mode=0o700)
        files = {"certificate.pem": certificate, "key.pem": key, "ca.pem": ca or self.made.certificate}
        for file, data in files.items():
            (folder / file).write_bytes(data)
            (folder / file).chmod(0o600)
        return folder


@asynccontextmanager
async def nimbus(folder: Path, authority: Authority) -> AsyncIterator[Place]:
    """A nimbus at a port, which asks for certificates as the command does."""
    own = TlsFiles.in_folder(str(authority.node("nimbus", "parent", "worker")))
    tls = TlsFiles(own.certificate, own.key, own.ca, one_sided=True)
    async with place(folder, "127.0.0.1:0", Security(Credentials.new("cluster"), tls)) as made:
        yield made


def asks(made: Place, certificate: Path, **more: object) -> Cluster:
    return Cluster(f"aiostorm://{made.address}", certificate=certificate, **more)  # type: ignore[arg-type]


async def refused(made: Place, certificate: Path) -> str:
    """Why a client with this certificate is answered nothing, as it is said to it."""
    with pytest.raises((DeniedError, UnavailableError)) as found:
        async with asks(made, certificate) as cluster:
            await cluster.topologies()
    return str(found.value)


async def test_the_certificate_gives_the_role(short_path: Path) -> None:
    ca = Authority(short_path)
    async with nimbus(short_path, ca) as made:
        async with asks(made, ca.client("viewer")) as viewer:
            assert await viewer.topologies() == []
            with pytest.raises(DeniedError, match=r"needs the role operator, and the certificate 'cert:ann' \(SHA-256"):
                await viewer.kill("words")
        async with asks(made, ca.client("submitter", "bob")) as cluster:
            found = await cluster.submit("words", "words:topology", workers=1, check=False)
            assert found.record.submitted_by == "cert:bob"
            with pytest.raises(DeniedError, match="needs the role admin"):
                await cluster.tokens()
            with pytest.raises(DeniedError, match="needs the role admin"):
                await cluster.revoke_certificate("00" * 32)
        lines = {(line["who"], line["what"]): line for line in made.audit()}
        assert lines["cert:ann", "kill"]["result"].startswith("refused: kill needs the role operator")
        assert lines["cert:bob", "submit"]["certificate"] == {
            "subject": "O=prod/OU=submitter/CN=bob",
            "sha256": fingerprint_in(short_path / "prod-bob-submitter" / "certificate.pem"),
        }


async def test_clients_with_a_token_are_answered_as_before(short_path: Path) -> None:
    ca = Authority(short_path)
    async with nimbus(short_path, ca) as made:
        trusted = str(short_path / "prod-nimbus" / "ca.pem")
        async with Cluster(f"aiostorm://{made.address}", token_file=made.file(Role.ADMIN), ca=trusted) as cluster:
            assert len(await cluster.tokens()) == 4


async def test_one_that_is_revoked_is_refused_on_an_open_connection(short_path: Path) -> None:
    ca = Authority(short_path)
    folder, other = ca.client("operator"), ca.client("operator", "bob")
    sha256 = fingerprint_in(folder / "certificate.pem")
    async with nimbus(short_path, ca) as made, asks(made, folder) as ann, asks(made, other) as bob:
        assert await ann.topologies() == []
        begun_s = time.monotonic()
        async with asks(made, ca.client("admin", "root")) as admin:
            await admin.revoke_certificate(sha256)
            assert [(each.sha256, each.by) for each in await admin.revoked_certificates()] == [(sha256, "cert:root")]
            with pytest.raises(ValueError, match="64 hexadecimal digits"):
                await admin.revoke_certificate("ann")
        with pytest.raises(DeniedError, match="was revoked, or has ended"):
            await ann.topologies()
        assert time.monotonic() - begun_s < 5
        assert "nimbus refuses the certificate" in await refused(made, folder)
        assert await bob.topologies() == []  # the other one of the same role


async def test_while_the_list_cannot_be_read_no_certificate_is_accepted(short_path: Path) -> None:
    ca = Authority(short_path)
    async with nimbus(short_path, ca) as made, asks(made, ca.client("viewer")) as cluster:
        made.served.revoked = None
        with pytest.raises(UnavailableError, match="cannot reach the cluster's store"):
            await cluster.topologies()


async def test_one_that_ends_while_it_is_connected(short_path: Path) -> None:
    ca = Authority(short_path)
    async with nimbus(short_path, ca) as made, asks(made, ca.client("viewer")) as cluster:
        assert await cluster.topologies() == []
        made.served.clock = Later()
        with pytest.raises(DeniedError, match="was revoked, or has ended"):
            await cluster.topologies()


async def test_expired_foreign_and_self_made_certificates(short_path: Path) -> None:
    ca, foreign = Authority(short_path), Authority(short_path, "other")
    unknown = foreign.client("admin")
    (unknown / "ca.pem").write_bytes(ca.made.certificate)  # it trusts the right nimbus
    async with nimbus(short_path, ca) as made:
        assert "is refused without a reason" in await refused(made, ca.client("admin", now_s=time.time() - 5 * DAY_S))
        assert "is refused without a reason" in await refused(made, unknown)
        same_name = Authority(short_path / "prod-nimbus", "prod").client("admin")  # a CA with the same name
        (same_name / "ca.pem").write_bytes(ca.made.certificate)
        assert "is refused without a reason" in await refused(made, same_name)
        assert "TLS" in await refused(made, foreign.client("admin", "bob"))  # and this one trusts another
        assert made.audit() == []


@pytest.mark.parametrize("roles", [(), ("worker",), ("parent", "worker", "node", "ingress", "egress"), ("spark",)])
async def test_a_node_has_no_role_of_a_client(short_path: Path, roles: tuple[str, ...]) -> None:
    ca = Authority(short_path)
    async with nimbus(short_path, ca) as made:
        assert "names no role of a client" in await refused(made, ca.node("n", *roles))


OU, CN = NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME


@pytest.mark.parametrize(
    "subject",
    [
        ((OU, "viewer"), (OU, "admin"), (CN, "ann")),
        ((OU, "worker"), (OU, "admin"), (CN, "ann")),
        ((OU, "viewer/OU=admin"), (CN, "ann")),
        ((OU, "admin\n"), (CN, "ann")),
        ((OU, "admin"),),
        ((OU, "admin"), (CN, "ann"), (CN, "bob")),
        ((OU, "admin"), (CN, 'x\n{"who": "root"}')),
        ((OU, "admin"), (CN, "\x1b[2J")),
        ((OU, "admin"), (CN, "../../x")),
        ((NameOID.TITLE, "admin"), (CN, "ann")),
    ],
)
async def test_hostile_subjects(
    short_path: Path, subject: tuple[tuple[x509.ObjectIdentifier, str], ...], caplog: pytest.LogCaptureFixture
) -> None:
    ca = Authority(short_path)
    async with nimbus(short_path, ca) as made:
        assert "nimbus refuses the certificate" in await refused(made, ca.with_subject("x", *subject))
    lines = [record.getMessage() for record in caplog.records]
    assert any("is refused: the certificate " in line for line in lines)
    assert all(line.isprintable() for line in lines)


async def test_the_key_of_another_certificate(short_path: Path) -> None:
    """Who has only seen a certificate cannot show it."""
    ca = Authority(short_path)
    stolen = ca.client("admin", "eve")
    (stolen / "certificate.pem").write_bytes((ca.client("admin") / "certificate.pem").read_bytes())
    async with nimbus(short_path, ca) as made:
        with pytest.raises(CredentialsError, match="TLS cannot be used"):
            async with asks(made, stolen) as cluster:
                await cluster.topologies()


async def test_a_client_is_no_node_and_cannot_listen(short_path: Path) -> None:
    """It opens no link to workers, also with the cluster's token, and is not trusted as a server's."""
    ca = Authority(short_path)
    token = Credentials.new("prod")
    node = Security(token, TlsFiles.in_folder(str(ca.node("n", "worker"))))
    client = Security(token, TlsFiles.in_folder(str(ca.client("admin"))))
    async with (
        open_network("w", node, role="worker", roles=("worker", "parent")) as worker,
        open_network("e", client, role="worker", roles=("worker", "parent")) as eve,
    ):
        listener = await worker.listen("127.0.0.1:0", lambda connection: None)
        with pytest.raises(NetworkError):
            await eve.connect(listener.address)
        false = await eve.listen("127.0.0.1:0", lambda connection: None)
        with pytest.raises(NetworkError):
            await worker.connect(false.address)


async def test_what_contradicts_itself(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIOSTORM_TOKEN_FILE", "AIOSTORM_CERTIFICATE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="a token and a certificate"):
        Cluster("aiostorm://127.0.0.1:1", token_file=short_path / "t", certificate=short_path)
    with pytest.raises(ValueError, match="over TLS only"):
        Cluster("aiostorm://unix:/x", certificate=short_path)
    with pytest.raises(ValueError, match="leave out --ca"):
        Cluster("aiostorm://127.0.0.1:1", certificate=short_path, ca=short_path / "ca.pem")
    with pytest.raises(ValueError, match="is a store"):
        Cluster(f"sqlite:{short_path}/x", certificate=short_path)
    with pytest.raises(ClusterError, match="aiostorm certs client"):
        Cluster("aiostorm://127.0.0.1:1")
    monkeypatch.setenv("AIOSTORM_TOKEN_FILE", "t")
    monkeypatch.setenv("AIOSTORM_CERTIFICATE", "c")
    with pytest.raises(ValueError, match="a token and a certificate"):
        Cluster("aiostorm://127.0.0.1:1")
    Cluster("aiostorm://127.0.0.1:1", certificate=short_path)  # what is said here counts


async def test_a_key_that_others_can_read(short_path: Path) -> None:
    ca = Authority(short_path)
    folder = ca.client("viewer")
    (folder / "key.pem").chmod(0o644)
    with pytest.raises(CredentialsError, match="chmod 600"):
        async with Cluster("aiostorm://127.0.0.1:1", certificate=folder):
            pass


async def test_the_store_is_asked_without_a_nimbus(short_path: Path) -> None:
    """Who has the home folder revokes without a role."""
    ca = Authority(short_path)
    async with nimbus(short_path, ca) as made:
        shared = made.served.cluster
        assert shared is not None
        assert await shared.revoked_certificates() == []
        folder = ca.client("viewer")
        await shared.revoke_certificate(fingerprint_in(folder / "certificate.pem"))
        assert "nimbus refuses the certificate" in await refused(made, folder)
        with pytest.raises(OrderError):
            await shared.topology("words")
