"""A listener and its peers: requests of every kind, unauthenticated peers of every kind. Over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import stat
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import (
    AdmissionLimits,
    AuthenticatedNetwork,
    Connection,
    ConnectionLostError,
    Credentials,
    ExposedError,
    Identity,
    NetworkError,
    Secret,
    Security,
    UnixNetwork,
    WebSocketNetwork,
    check_exposure,
    open_network,
    parse_address,
)
from aiostorm.transport.net.addresses import TcpAddress
from aiostorm.transport.net.admission import PATH, Admission, is_ours, refusal

sockets = pytest.mark.sockets

TOKEN = Credentials("storm-1", Secret(bytes(range(32))))
PATIENCE_S = 20


class PendingConnections:
    def __init__(self, network: WebSocketNetwork, address: str, came: list[Connection]) -> None:
        self.network = network
        self.address = address
        self.came = came
        self.port = int(address.rpartition(":")[2])

    async def answer_to(self, said: bytes) -> bytes:
        """What is answered until it hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        answer = b""
        with contextlib.suppress(OSError):
            writer.write(said)
            async with asyncio.timeout(PATIENCE_S):
                while more := await reader.read(65536):
                    answer += more
                    if answer.startswith(b"HTTP/1.1 101"):
                        break
        writer.close()
        return answer

    async def is_left_alone(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.network._taps or self.unauthenticated:  # noqa: ASYNC110 - the end of an unauthenticated peer is not reported
                await asyncio.sleep(0.001)

    @property
    def unauthenticated(self) -> int:
        assert self.network._incoming is not None
        return self.network._incoming.listeners.admission.unauthenticated


@contextlib.asynccontextmanager
async def listening_at(security: Security | None = None, **limits: float) -> AsyncIterator[PendingConnections]:
    came: list[Connection] = []
    limits.setdefault("authenticate_within_s", 10.0)
    async with WebSocketNetwork(security, limits=AdmissionLimits(**limits)) as network:  # type: ignore[arg-type]
        listener = await network.listen("127.0.0.1:0", came.append)
        yield PendingConnections(network, listener.address, came)


def request(port: int, line: str = f"GET {PATH} HTTP/1.1", host: str | None = None, *more: str) -> bytes:
    lines = [
        line,
        f"Host: {f'127.0.0.1:{port}' if host is None else host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        *more,
    ]
    return "\r\n".join([*(line for line in lines if not line.endswith(": -")), "", ""]).encode("latin-1")


@sockets
async def test_only_the_one_request_gets_a_websocket() -> None:
    async with listening_at() as at:
        port = at.port
        good = request(port)
        cases: dict[bytes, bytes] = {
            good: b"101",
            request(port, host=f"localhost:{port}"): b"101",
            request(port, "GET / HTTP/1.1"): b"404",
            request(port, f"GET {PATH}/ HTTP/1.1"): b"404",
            request(port, f"GET {PATH}?a=1 HTTP/1.1"): b"404",
            request(port, "GET /aiostorm/../aiostorm/link HTTP/1.1"): b"404",
            request(port, f"GET http://127.0.0.1:{port}{PATH} HTTP/1.1"): b"101",
            request(port, f"GET http://evil.example{PATH} HTTP/1.1", "evil.example"): b"421",
            request(port, host="evil.example"): b"421",
            request(port, host=f"evil.example:{port}"): b"421",
            request(port, host=f"127.0.0.1.evil.example:{port}"): b"421",
            request(port, host=f"evil127.0.0.1:{port}"): b"421",
            request(port, host="127.0.0.1"): b"421",
            request(port, host=f"127.0.0.1:{port + 1}"): b"421",
            request(port, host=f"127.0.0.2:{port}"): b"421",
            request(port, host=f"[::1]:{port}"): b"421",
            request(port, host=f"user@127.0.0.1:{port}"): b"421",
            request(port, host=""): b"4",
            request(port, host="-"): b"4",
            good.replace(b"Connection: Upgrade", b"Connection: close"): b"400",
            good.replace(b"Upgrade: websocket", b"Upgrade: h2c"): b"426",
            good.replace(b"Version: 13", b"Version: 1"): b"400",
            good.replace(b"MDEyMzQ1Njc4OWFiY2RlZg==", b"short"): b"400",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": b"400",
            b"nonsense\r\n\r\n": b"400",
        }
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"):
            cases[request(port, f"{method} {PATH} HTTP/1.1")] = b"405"
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port}", f"http://localhost:{port}", ""):
            cases[request(port, f"GET {PATH} HTTP/1.1", None, f"Origin: {origin}")] = b"403"
        cases[request(port, f"GET {PATH} HTTP/1.1", None, "Host: evil.example")] = b"4"
        for said, status in cases.items():
            answer = await at.answer_to(said)
            assert answer.startswith((b"HTTP/1.1 " + status, b"HTTP/1.0 400")), (said, answer)
            if b" 400 " not in answer[:16]:  # what is no HTTP is answered by aiohttp itself
                assert b"aiohttp" not in answer
                assert b"Python" not in answer
            assert b"permessage-deflate" not in answer
        for one in at.came:
            one.close()
        assert len(at.came) == 3
        at.came.clear()
        await at.is_left_alone()


@sockets
@pytest.mark.parametrize("rudely", [False, True])
async def test_a_connection_closed_before_it_was_accepted_is_not_logged(
    rudely: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Found where a loop was held up while peers dialled: aiohttp logged a traceback for each."""
    async with listening_at() as at:
        with socket.create_connection(("127.0.0.1", at.port)) as dialled:
            dialled.sendall(request(at.port))
            if rudely:
                await asyncio.sleep(0)
                dialled.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await asyncio.sleep(0.05)
        await at.is_left_alone()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@sockets
async def test_a_request_that_is_too_long_or_too_slow_is_cut_off() -> None:
    async with listening_at(authenticate_within_s=0.3) as at:
        for said in (
            b"G",
            b"GET " + b"/" * 5000 + b" HTTP/1.1\r\n\r\n",
            request(at.port, f"GET {PATH} HTTP/1.1", None, "X: " + "x" * 5000),
            request(at.port, f"GET {PATH} HTTP/1.1", None, *(f"X{number}: x" for number in range(200))),
            b"X" * 100_000,
            request(at.port)[:-2],
            b"",
        ):
            assert not (await at.answer_to(said)).startswith(b"HTTP/1.1 101")
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        with contextlib.suppress(OSError, RuntimeError):  # uvloop's for a transport that is closed
            for byte in request(at.port)[:60]:  # slow loris
                writer.write(bytes([byte]))
                await asyncio.sleep(0.01)
            assert await reader.read() == b""
        writer.close()
        assert not at.came
        await at.is_left_alone()


@sockets
async def test_an_unauthenticated_peer_may_send_four_kib_and_stays_some_seconds() -> None:
    async with listening_at(Security(TOKEN), authenticate_within_s=0.5) as at, WebSocketNetwork() as network:
        kept_short = await network.connect(at.address)
        kept_short.send(bytes(5000))
        with pytest.raises(ConnectionLostError):
            await kept_short.receive()
        silent = await network.connect(at.address)
        with pytest.raises(ConnectionLostError):
            await silent.receive()
        trusted = await network.connect(at.address)
        far = at.came[-1]
        far.set_authenticated()  # type: ignore[attr-defined]
        trusted.send(bytes(500_000))
        assert len(await far.receive()) == 500_000
        await asyncio.sleep(0.6)
        trusted.send(b"still there")
        assert await far.receive() == b"still there"


BAD_FRAMES = {
    "text": b"\x81\x82\0\0\0\0hi",
    "compressed": b"\xc2\x82\0\0\0\0hi",
    "reserved": b"\xa2\x82\0\0\0\0hi",
    "an unknown kind": b"\x83\x82\0\0\0\0hi",
    "too large": b"\x82\xff\0\0\0\0\0\x20\0\0\0\0\0\0" + bytes(64),
    "far too large": b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0" + bytes(64),
    "larger than a number": b"\x82\xff" + b"\xff" * 12 + bytes(64),
    "a ping that is too large": b"\x89\xfe\x01\x00\0\0\0\0" + bytes(256),
    "a continuation of nothing": b"\x80\x82\0\0\0\0hi",
}


@sockets
@pytest.mark.parametrize("what", BAD_FRAMES)
async def test_an_invalid_frame_ends_the_connection(what: str) -> None:
    async with listening_at() as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(request(at.port))
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        [far] = at.came
        writer.write(BAD_FRAMES[what])
        with pytest.raises(ConnectionLostError):
            await far.receive()
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
        writer.close()
        await at.is_left_alone()


@sockets
async def test_a_thousand_silent_connections_do_not_keep_others_out() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    came: list[Connection] = []
    async with (
        WebSocketNetwork(Security(TOKEN)) as listening,
        AuthenticatedNetwork(listening, TOKEN, Identity("b")) as theirs,
        open_network("a", Security(TOKEN)) as ours,
    ):
        address = (await theirs.listen("127.0.0.1:0", came.append)).address
        near = await ours.connect(address)
        far = came[0]
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        silent: list[asyncio.StreamWriter] = []
        for number in range(1000):
            with contextlib.suppress(OSError):
                silent.append((await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2])))[1])
            if number % 20 == 0:
                near.send(b"%d" % number)
                assert await far.receive() == b"%d" % number
        assert listening._incoming is not None
        assert listening._incoming.listeners.admission.unauthenticated <= 64
        another = await ours.connect(address)  # an honest one still comes in
        another.send(b"here")
        assert await came[-1].receive() == b"here"
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        assert grown_kib < 64 * 1024
        for writer in silent:
            writer.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@sockets
async def test_a_redirect_is_not_followed() -> None:
    received: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(100))
        writer.close()

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % port)
        writer.close()

    other = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    async with WebSocketNetwork() as network:
        with pytest.raises(NetworkError):
            await network.connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    server.close()
    other.close()
    assert not received


@sockets
async def test_a_unix_socket_is_for_this_user_only(short_path: Path) -> None:
    async with UnixNetwork() as network:
        path = short_path / "ours" / "socket"
        listener = await network.listen(f"unix:{path}", lambda connection: None)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with pytest.raises(NetworkError, match="another process listens"):
            await network.listen(f"unix:{path}", lambda connection: None)
        listener.close()
        assert not path.exists()
        path.write_text("a file of the user's")
        with pytest.raises(NetworkError, match="is no socket"):
            await network.listen(f"unix:{path}", lambda connection: None)
        path.unlink()
        path.parent.chmod(0o750)
        with pytest.raises(NetworkError, match="mkdir -m 700"):
            await network.listen(f"unix:{path}", lambda connection: None)
        path.parent.chmod(0o700)
        with pytest.raises(NetworkError, match="at most 107 bytes"):
            await network.listen(f"unix:{path.parent}/{'s' * 100}", lambda connection: None)
        left = socket.socket(socket.AF_UNIX)  # by a process that was killed
        left.bind(str(path.with_name("stale")))
        left.close()
        stale = await network.listen(f"unix:{path.parent}/stale", lambda connection: None)
        await network.connect(stale.address)


# -- the pure rules ----------------------------------------------------------------------------------------------------

FREE = ["127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1", "LOCALHOST:1", "unix:/a"]
OPEN = [
    "0.0.0.0:1",
    "[::]:1",
    "10.0.0.2:1",
    "192.168.0.1:1",
    "169.254.169.254:1",
    "[fe80::1]:1",
    "[::ffff:0.0.0.0]:1",
    "[::ffff:10.0.0.2]:1",
    "[2001:db8::1]:1",
    "a.example:1",
    "localhost.example:1",
    "localhost.:1",
    "127.1:1",
    "2130706433:1",
    "0x7f.0.0.1:1",
    "127.0.0.1.example:1",
    "0:1",
]


def test_addresses_at_which_a_process_may_listen() -> None:
    check_exposure(FREE, tls=False, token=False)
    for address in OPEN:
        for tls, token, missing in ((False, False, "TLS and a token"), (True, False, "a token"), (False, True, "TLS")):
            with pytest.raises(ExposedError, match=f"it needs {missing}\\. .*--credentials DIR.*--insecure"):
                check_exposure([*FREE, address], tls=tls, token=token)
        check_exposure([address], tls=True, token=True)
        check_exposure([address], tls=False, token=False, insecure=True)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "a", "a:", ":1", "a:65536", "a:-1", "a:1a", "a:٣", "::1:1", "[::1]", "[a]:1", "[127.0.0.1]:1"),
        *("a b:1", "unix:a", "unix:", "unix:/a\0b", "a/b:1", "a@b:1", "ä:1", "a:000001", "[::1%]:1", "http://a:1"),
    ],
)
def test_an_invalid_address_is_an_error(text: str) -> None:
    with pytest.raises(NetworkError):
        parse_address(text)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_network_error(text: str) -> None:
    try:
        address = parse_address(text)
    except NetworkError:
        return
    assert parse_address(str(address)) == address


@given(st.sampled_from(["127.0.0.1", "localhost", "a.example", "[::1]", "127.0.0.2"]), st.integers(0, 65535))
def test_only_the_same_host_and_port_are_ours(host: str, port: int) -> None:
    ours = [TcpAddress("127.0.0.1", 6700), TcpAddress("a.example", 6700)]
    assert is_ours(f"{host}:{port}", ours) == (port == 6700 and host in ("127.0.0.1", "a.example"))


def test_with_tls_any_host_will_do_but_there_is_one() -> None:
    headers = [("Host", "a.example:6700"), ("Upgrade", "websocket")]
    assert refusal("GET", PATH, headers, None) is None
    assert refusal("GET", PATH, headers, []) == 421
    assert refusal("GET", PATH, headers * 2, None) == 421
    assert refusal("GET", PATH, headers[1:], None) == 421


@given(
    st.lists(st.tuples(st.sampled_from(["opened", "authenticated", "closed"]), st.integers(0, 3), st.integers(0, 30)))
)
def test_unauthenticated_connections_are_few_and_all_are_counted(events: list[tuple[str, int, int]]) -> None:
    limits = AdmissionLimits(max_unauthenticated=3, max_per_address=5)
    admission = Admission(limits)
    here: dict[object, str] = {}
    for what, where, which in events:
        connection, address = (where, which), f"10.0.0.{where}"
        if what == "opened" and connection not in here:
            leaves = admission.opened(connection, address)
            if leaves is None:
                assert list(here.values()).count(address) == limits.max_per_address
                continue
            here[connection] = address
            for excess in leaves:
                admission.closed(excess, here.pop(excess))
        elif what == "authenticated" and connection in here:
            admission.authenticated(connection)
        elif what == "closed" and connection in here:
            admission.closed(connection, here.pop(connection))
        assert admission.unauthenticated <= limits.max_unauthenticated
        assert admission._addresses.total() == len(here)
    for connection, address in here.items():
        admission.closed(connection, address)
    assert not admission._addresses
    assert not admission.unauthenticated
