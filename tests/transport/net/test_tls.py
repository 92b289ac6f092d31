"""TLS between nodes, over real sockets: both sides are verified, and nothing that is wrong gets through."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiostorm.transport import (
    AdmissionLimits,
    AuthenticatedNetwork,
    AuthenticationError,
    Connection,
    ConnectionLostError,
    Credentials,
    CredentialsError,
    ExposedError,
    Identity,
    Issued,
    NetworkError,
    Secret,
    Security,
    TlsFiles,
    WebSocketNetwork,
    new_authority,
    new_certificate,
    open_network,
)

sockets = pytest.mark.sockets

TOKEN = Credentials("storm-1", Secret(bytes(range(32))))
OTHER_TOKEN = Credentials("storm-1", Secret(bytes(32)))
PATIENCE_S = 20
DAY_S = 86_400


class Ministry:
    """Makes certificates of all kinds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ca = new_authority("storm-1", time.time(), 10)
        self.foreign = new_authority("storm-1", time.time(), 10)
        self._made = 0

    def files(
        self,
        *hosts: str,
        ca: Issued | None = None,
        trusts: Issued | None = None,
        now_s: float | None = None,
        days: int = 2,
        name: str = "node",
        roles: tuple[str, ...] = (),
    ) -> TlsFiles:
        ca = ca or self.ca
        made = new_certificate(ca.certificate, ca.key, name, hosts, now_s or time.time(), days, roles)
        return self.written(made, trusts or self.ca)

    def written(self, made: Issued, trusts: Issued) -> TlsFiles:
        self._made += 1
        paths = [self.path / f"{self._made}-{what}.pem" for what in ("certificate", "key", "ca")]
        for path, data in zip(paths, (made.certificate, made.key.reveal(), trusts.certificate), strict=True):
            path.touch(0o600)
            path.write_bytes(data)
        return TlsFiles(*map(str, paths))

    def expired(self) -> TlsFiles:
        past_s = time.time() - 5 * DAY_S
        old = new_authority("storm-1", past_s, 30)
        made = new_certificate(old.certificate, old.key, "node", [], past_s, 2)
        self.old_ca = old
        return self.written(made, old)


@pytest.fixture(scope="module")
def ministry(tmp_path_factory: pytest.TempPathFactory) -> Ministry:
    return Ministry(tmp_path_factory.mktemp("ministry"))


@dataclass
class Server:
    """A network that listens with TLS and a token, and what came in there."""

    network: WebSocketNetwork
    address: str
    came: list[Connection]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def is_left_alone(self) -> None:
        """No connection was accepted, and none is pending."""
        async with asyncio.timeout(PATIENCE_S):
            while self.network._taps or self.network._incoming.listeners.admission.unauthenticated:  # type: ignore[union-attr]  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert not self.came


async def to_the_end(connection: Connection) -> None:
    with contextlib.suppress(ConnectionLostError):
        while True:
            await connection.receive()


@contextlib.asynccontextmanager
async def serving(security: Security, limits: AdmissionLimits | None = None) -> AsyncIterator[Server]:
    came: list[Connection] = []
    assert security.credentials is not None
    async with (
        WebSocketNetwork(security, limits=limits) as network,
        AuthenticatedNetwork(network, security.credentials, Identity("server")) as authenticated,
    ):
        listener = await authenticated.listen("127.0.0.1:0", came.append)
        yield Server(network, listener.address, came)


@sockets
async def test_two_nodes_speak_when_all_is_right(ministry: Ministry) -> None:
    ours, theirs = (Security(TOKEN, ministry.files()) for _ in range(2))
    async with serving(theirs) as server, open_network("client", ours) as network:
        for address in (server.address, f"localhost:{server.port}"):
            near = await network.connect(address)
            far = server.came.pop()
            for size in (1, 70_000, 1_048_576):
                near.send(bytes(size))
                far.send(bytes(size))
                assert len(await far.receive()) == size
                assert len(await near.receive()) == size
            while near.writable:
                near.send(bytes(100_000))
                await asyncio.sleep(0)
            async with asyncio.TaskGroup() as group:
                drained = group.create_task(near.drained())
                while not drained.done():
                    assert len(await far.receive()) == 100_000
            near.close()
            await to_the_end(far)
        await server.is_left_alone()


WRONG: dict[str, Callable[[Ministry], tuple[Security, Security]]] = {
    # name: (who dials, who listens)
    "a token of another": lambda m: (Security(OTHER_TOKEN, m.files()), Security(TOKEN, m.files())),
    "a foreign CA has signed who dials": lambda m: (
        Security(TOKEN, m.files(ca=m.foreign)),
        Security(TOKEN, m.files()),
    ),
    "a foreign CA has signed who listens": lambda m: (
        Security(TOKEN, m.files()),
        Security(TOKEN, m.files(ca=m.foreign)),
    ),
    "who dials trusts another CA": lambda m: (Security(TOKEN, m.files(trusts=m.foreign)), Security(TOKEN, m.files())),
    "who listens trusts another CA": lambda m: (Security(TOKEN, m.files()), Security(TOKEN, m.files(trusts=m.foreign))),
    "who dials has no TLS": lambda m: (Security(TOKEN), Security(TOKEN, m.files())),
    "who listens has no TLS": lambda m: (Security(TOKEN, m.files()), Security(TOKEN)),
}


@sockets
@pytest.mark.parametrize("wrong", WRONG)
async def test_wrong_certificates_are_refused(ministry: Ministry, wrong: str) -> None:
    ours, theirs = WRONG[wrong](ministry)
    async with serving(theirs) as server, open_network("client", ours) as network:
        with pytest.raises(NetworkError):
            async with asyncio.timeout(PATIENCE_S):
                await network.connect(server.address)
        await server.is_left_alone()


@sockets
@pytest.mark.parametrize("who", ["who dials", "who listens"])
async def test_a_certificate_names_the_roles_of_its_owner(ministry: Ministry, who: str) -> None:
    worker, parent = ministry.files(roles=("worker", "node")), ministry.files(roles=("parent",))
    other = ministry.files()
    for files, role, believed in ((worker, "worker", True), (worker, "parent", False), (parent, "worker", False)):
        ours, theirs = (files, other) if who == "who dials" else (other, files)
        roles = {"role": role, "roles": ("node",)} if who == "who dials" else {"role": "node", "roles": (role,)}
        serves = {"roles": (role,)} if who == "who dials" else {"role": role}
        async with (
            open_network("server", Security(TOKEN, theirs), **serves) as server,  # type: ignore[arg-type]
            open_network("client", Security(TOKEN, ours), **roles) as network,  # type: ignore[arg-type]
        ):
            came: list[Connection] = []
            listener = await server.listen("127.0.0.1:0", came.append)
            if believed:
                await network.connect(listener.address)
                continue
            with pytest.raises(AuthenticationError):
                await network.connect(listener.address)
            assert not came


@sockets
@pytest.mark.parametrize("who", ["who dials", "who listens"])
async def test_a_certificate_that_has_expired_is_refused(ministry: Ministry, who: str) -> None:
    expired = ministry.expired()
    good = ministry.files(ca=ministry.old_ca, trusts=ministry.old_ca)
    ours, theirs = (expired, good) if who == "who dials" else (good, expired)
    async with serving(Security(TOKEN, theirs)) as server, open_network("client", Security(TOKEN, ours)) as network:
        with pytest.raises(NetworkError):
            await network.connect(server.address)
        await server.is_left_alone()


@sockets
async def test_a_certificate_for_another_host_is_refused(ministry: Ministry) -> None:
    files = ministry.files("10.0.0.2")
    seen: list[str] = []

    async def read_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.read(100)).decode())
        writer.close()

    # localhost and 127.0.0.1 are in every certificate: 127.0.0.2 is in none.
    context = files.server_context()
    server = await asyncio.start_server(read_all, "127.0.0.2", 0, ssl=context)
    async with server, open_network("client", Security(TOKEN, ministry.files())) as network:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NetworkError, match="IP address mismatch"):
            await network.connect(f"127.0.0.2:{port}")
        server.close()
    assert seen in ([], [""]), "not a byte of ours was sent"


def client_context(files: TlsFiles, **changes: object) -> ssl.SSLContext:
    context = files.client_context()
    for name, value in changes.items():
        setattr(context, name, value)
    return context


@sockets
@pytest.mark.parametrize(
    "how",
    [
        "no certificate",
        "TLS 1.2",
        "plain HTTP",
        "garbage",
        "nothing, and ends",
        "half a handshake",
        "a self-signed one",
    ],
)
async def test_a_peer_that_does_not_finish_tls_is_refused(ministry: Ministry, how: str) -> None:
    files = ministry.files()
    context: ssl.SSLContext | None = None
    said = b"GET /aiostorm/link HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    if how == "no certificate":
        context = ssl.create_default_context(cafile=files.ca)
    elif how == "TLS 1.2":
        context = files.client_context()
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif how == "self-signed":
        alone = ministry.written(new_authority("storm-1", time.time(), 2), ministry.ca)
        context = ssl.create_default_context(cafile=files.ca)
        context.load_cert_chain(alone.certificate, alone.key)
    elif how == "garbage":
        said = bytes(range(256)) * 200
    elif how == "half a handshake":
        said = bytes.fromhex("160301020001")
    limits = AdmissionLimits(authenticate_within_s=0.2)
    async with serving(Security(TOKEN, files), limits) as server:
        with contextlib.suppress(OSError, ssl.SSLError):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
            if how != "nothing, and ends":
                writer.write(said)
            else:
                writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                answer = await reader.read()
            assert b"101" not in answer
            writer.close()
        await server.is_left_alone()


@sockets
async def test_a_third_party_is_found_though_its_certificate_is_good(ministry: Ministry) -> None:
    """Another node of the cluster, whose certificate is for the same host, passes on what it receives."""
    theirs, ours, between = (ministry.files() for _ in range(3))
    async with serving(Security(TOKEN, theirs)) as server, open_network("a", Security(TOKEN, ours)) as network:

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", server.port, ssl=between.client_context())

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                with contextlib.suppress(OSError, ssl.SSLError):
                    while data := await source.read(65536):
                        sink.write(data)
                sink.close()

            async with asyncio.TaskGroup() as group:
                group.create_task(pump(reader, back))
                group.create_task(pump(there, writer))

        middle = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=between.server_context())
        with pytest.raises(AuthenticationError, match="a third party is in between"):
            await network.connect(f"127.0.0.1:{middle.sockets[0].getsockname()[1]}")
        middle.close()
        await server.is_left_alone()
        await asyncio.sleep(0.05)  # the relay's tasks end


@sockets
async def test_off_loopback_nothing_is_dialled_or_listened_at_unprotected(ministry: Ministry) -> None:
    files = ministry.files()
    for security, missing in (
        (Security(), "TLS and a token"),
        (Security(TOKEN), "TLS:|TLS\\."),
        (Security(None, files), "a token"),
    ):
        async with WebSocketNetwork(security) as network:
            for address in ("0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"):
                with pytest.raises(ExposedError, match=missing):
                    await network.listen(address, lambda connection: None)
            if security.tls is None:
                for address in ("10.0.0.2:6700", "[2001:db8::1]:6700", "0.0.0.0:6700"):
                    with pytest.raises(ExposedError, match="another machine"):
                        await network.connect(address)
    async with WebSocketNetwork(Security(TOKEN, files)) as network:
        listener = await network.listen("0.0.0.0:0", lambda connection: None)
        assert listener.address.startswith("0.0.0.0:")
    async with WebSocketNetwork(Security(insecure=True)) as network:
        await network.listen("0.0.0.0:0", lambda connection: None)


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_that_cannot_be_used_say_why(ministry: Ministry, tmp_path: Path) -> None:
    good = ministry.files()
    key = Path(good.key)
    for mode in (0o644, 0o640):
        key.chmod(mode)
        with pytest.raises(CredentialsError, match=f"chmod 600 {key}"):
            good.server_context()
    key.chmod(0o600)
    for files in (
        TlsFiles(str(tmp_path / "none"), good.key, good.ca),
        TlsFiles(good.certificate, str(tmp_path / "none"), good.ca),
        TlsFiles(good.certificate, good.key, str(tmp_path / "none")),
        TlsFiles(good.key, good.key, good.ca),
        TlsFiles(good.certificate, ministry.files().key, good.ca),
    ):
        for use in (files.server_context, files.client_context):
            with pytest.raises(CredentialsError, match=r"No such file|cannot be used"):
                use()
    for path in (tmp_path / "none", key):
        with pytest.raises(CredentialsError, match="holds no certificate"):
            TlsFiles(str(path), good.key, good.ca).binding()


def test_an_encrypted_key_is_not_asked_about(ministry: Ministry, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    good = ministry.files()
    key = serialization.load_pem_private_key(Path(good.key).read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.touch(0o600)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"canary"),
        )
    )
    with pytest.raises(CredentialsError, match="the key has a password"):
        TlsFiles(good.certificate, str(locked), good.ca).server_context()


def test_contexts_verify_both_sides_and_speak_1_3_only(ministry: Ministry) -> None:
    files = ministry.files()
    for context in (files.server_context(), files.client_context()):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert len(context.get_ca_certs()) == 1, "no CA of the system's"
    assert files.client_context().check_hostname


@pytest.mark.parametrize("host", ["", "a b", "*.example", "-a", "a..b", "a_b", "10.0.0.2:6700", "ä.example", "a" * 64])
def test_a_host_that_is_none_gets_no_certificate(ministry: Ministry, host: str) -> None:
    with pytest.raises(CredentialsError, match="is not a host"):
        ministry.files(host)


def test_a_certificate_ends_before_its_ca(ministry: Ministry) -> None:
    with pytest.raises(CredentialsError, match="the CA is valid until"):
        ministry.files(days=11)
    with pytest.raises(CredentialsError, match="does not belong to its certificate"):
        new_certificate(ministry.ca.certificate, ministry.foreign.key, "node", [], time.time(), 1)
    for name in ("..", ".", "-rf", "a/b", "", "a" * 65):
        with pytest.raises(CredentialsError, match="a name is"):
            ministry.files(name=name)


@sockets
async def test_a_connection_that_ends_twice_is_writable_and_raises_nothing(ministry: Ministry) -> None:
    """asyncio's TLS has nothing below it any more before it says so: to ask for its buffer was an AttributeError."""
    ours, theirs = (Security(TOKEN, ministry.files()) for _ in range(2))
    for close_before in (True, False):
        async with serving(theirs) as server, open_network("client", ours) as network:
            near = await network.connect(server.address)
            far = server.came.pop()
            tap = near._tap.writes  # type: ignore[attr-defined]
            while near.writable:
                near.send(bytes(100_000))
                await asyncio.sleep(0)
            if close_before:
                tap.close()
            tap.close()
            tap.transport.abort()
            while not tap.over:
                assert tap.writable
                assert not tap.buffered_bytes
                await asyncio.sleep(0)
            assert tap.writable
            far.close()
