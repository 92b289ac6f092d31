"""Clients of nimbus over real sockets: orders, code, tokens that end, and everything that is refused."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import time
from pathlib import Path

import pytest

from aiostorm import Cluster
from aiostorm.cluster import ClusterError
from aiostorm.cluster.access import MOST, PIECE_BYTES, REFUSED, DeniedError, RequestError, Role, request_frame, value_of
from aiostorm.cluster.code import ArchiveError, pack
from aiostorm.cluster.coordination import UnavailableError
from aiostorm.cluster.nimbus import OrderError
from aiostorm.topology import ConfigError
from aiostorm.transport import (
    ConnectionLostError,
    Credentials,
    CredentialsError,
    ExposedError,
    Secret,
    Security,
    SocketNetwork,
    TlsFiles,
    new_authority,
    new_certificate,
)

from .served import place

pytestmark = pytest.mark.sockets


def code(folder: Path, size_bytes: int = 10) -> Path:
    folder.mkdir()
    (folder / "words.py").write_text("topology = 1\n")
    (folder / "data.bin").write_bytes(os.urandom(size_bytes))
    return folder


async def test_a_client_orders_as_one_of_the_store_does(short_path: Path) -> None:
    async with place(short_path) as made, made.cluster(Role.SUBMITTER) as cluster:
        assert await cluster.topologies() == []
        submitted = await cluster.submit(
            "words",
            "words:topology",
            {"topology.workers": 2, "my.key": "x"},
            arguments=("a",),
            worker_memory_bytes=2**28,
            worker_cores=0.5,
            pins={"split": "gpu"},
            code=code(short_path / "src", 3 * PIECE_BYTES),
            check=False,
        )
        assert (submitted.name, submitted.workers, submitted.record.submitted_by) == ("words", 2, "submitter")
        assert submitted.record.config == {"topology.workers": 2, "my.key": "x"}
        assert (submitted.record.worker_memory_bytes, submitted.record.worker_cores) == (2**28, 0.5)
        assert submitted.record.pins == {"split": frozenset({"gpu"})}
        blob = made.folder / "home" / "blobs" / f"{submitted.record.blob}.blob"
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == submitted.record.blob
        assert os.listdir(made.folder / "code") == []  # nothing is left of what has arrived
        await cluster.deactivate("words")
        assert (await cluster.topology("words")).wanted == "INACTIVE"
        await cluster.activate("words")
        assert await cluster.rebalance("words", 3, parallelism={"split": 4}, drain_s=1.5, pins={"split": ()}) == 2
        found = await cluster.find("words")
        assert found is not None
        assert (found.wanted, found.workers, found.generation) == ("ACTIVE", 3, 2)
        assert (found.record.parallelism, found.record.wait_s, found.record.pins) == ({"split": 4}, 1.5, {})
        assert await cluster.update("words", {"max_spout_pending": 7}) == 1
        assert (await cluster.topology("words")).record.updates == {"topology.max.spout.pending": 7}
        with pytest.raises(ConfigError, match=r"topology\.workers cannot be changed while"):
            await cluster.update("words", {"topology.workers": 5})
        assert [node.name for node in await cluster.nodes()] == ["a"]
        assert await cluster.leader() == "nimbus-1"
        assert await cluster.errors("words") == ()
        assert await cluster.logs("words", lines=7) == {"parent": ["words 7"]}
        await cluster.kill("words", 0)
        await cluster.wait_ended("words", 10)
        assert await cluster.find("words") is None
        assert [(line["who"], line["what"], line["result"].split(":")[0]) for line in made.audit()] == [
            ("submitter", what, result)
            for what, result in (
                ("upload", "done"),
                ("submit", "done"),
                ("deactivate", "done"),
                ("activate", "done"),
                ("rebalance", "done"),
                ("update", "done"),
                ("update", "failed"),
                ("kill", "done"),
            )
        ]


async def test_code_is_replaced_and_what_is_not_given_stays(short_path: Path) -> None:
    async with place(short_path) as made, made.cluster(Role.SUBMITTER) as cluster:
        with pytest.raises(OrderError, match="no topology 'words'"):
            await cluster.submit("words", "words:topology", replace=True, check=False)
        first = await cluster.submit("words", "words:topology", {"my.key": "x"}, workers=3, check=False)
        archive = code(short_path / "src")
        after = await cluster.submit(
            "words", "words:other", code=archive, parallelism={"split": 2}, replace=True, check=False
        )
        assert (after.record.target, after.workers, after.generation) == ("words:other", 3, 2)
        assert (after.record.config, after.record.parallelism) == ({"my.key": "x"}, {"split": 2})
        assert after.record.blob
        assert after.record.former == first.record.plan()


async def test_no_client_is_shown_a_secret_of_a_topology(short_path: Path) -> None:
    config = {"db.password": "c4nary", "db.url": "amqp://me:c4nary@host", "my.key": "x"}
    async with place(short_path) as made:
        async with made.cluster(Role.ADMIN) as cluster:
            submitted = await cluster.submit(
                "words", "words:topology", config, arguments=("API_KEY=c4nary", "b"), workers=1, check=False
            )
            assert await cluster.topology("words") == submitted
        async with made.link(made.tokens[Role.VIEWER]) as link:
            asked: dict[str, dict[str, str]] = {
                "topologies": {},
                "topology": {"name": "words"},
                "find": {"name": "words"},
            }
            for request, arguments in asked.items():
                value, error = value_of(await link.ask(request, arguments, again=True))
                assert error is None
                assert (b"c4nary" in value, b"API_KEY=***" in value, b"my.key" in value) == (False, True, True), request
        assert (submitted.record.config["db.password"], submitted.record.config["my.key"]) == ("***", "x")
        stored = await made.served.cluster.topology("words")  # type: ignore[union-attr]
        assert (stored.record.config, stored.record.arguments) == (config, ("API_KEY=c4nary", "b"))
        assert "c4nary" not in str(made.audit())


async def test_errors_are_those_of_the_store(short_path: Path) -> None:
    async with place(short_path) as made, made.cluster(Role.SUBMITTER) as cluster:
        with pytest.raises(OrderError, match="no topology 'words'"):
            await cluster.kill("words")
        with pytest.raises(OrderError, match="no topology 'words'"):
            await cluster.topology("words")
        with pytest.raises(ValueError, match="workers"):
            await cluster.submit("words", "words:topology", workers=100_000, check=False)
        with pytest.raises(ClusterError, match="is a file of this machine"):
            await cluster.submit("words", "words.py:topology", check=False)
        with pytest.raises(ConfigError):
            await cluster.submit("words", "words:topology", {"topology.workers": "many"}, check=False)
        with pytest.raises(DeniedError, match="needs the role admin"):
            await cluster.tokens()


async def test_nimbus_checks_settings_itself(short_path: Path) -> None:
    """What a client leaves out, or another client sends, is checked all the same."""
    async with place(short_path) as made, made.link(made.tokens[Role.SUBMITTER]) as link:
        bad = (
            ({"config": {"topology.workers": "many"}}, "ConfigError"),
            ({"workers": 0}, "ValueError"),
            ({"workers": 10**9}, "ValueError"),
            ({"name": "../x\n"}, "ValueError"),
            ({"name": ""}, "ValueError"),
            ({"target": "/etc/passwd:x"}, "TargetError"),
            ({"target": "passwd.py:x"}, "ClusterError"),
        )
        for change, kind in bad:
            given = {"name": "words", "target": "words:topology", "workers": 1, **change}
            _, error = value_of(await link.ask("submit", given, again=False))
            assert error is not None, change
            assert error[0] == kind, (change, error)
        assert await made.served.cluster.topologies() == []  # type: ignore[union-attr]


async def asking(cluster: Cluster) -> None:
    """Ask again and again."""
    while True:
        await cluster.topologies()
        await asyncio.sleep(0.05)


async def test_a_token_that_is_revoked_is_refused_on_an_open_connection(short_path: Path) -> None:
    async with place(short_path) as made, made.cluster(Role.OPERATOR) as cluster, made.cluster(Role.ADMIN) as admin:
        assert await cluster.topologies() == []
        assert [each.name for each in await admin.tokens()] == ["admin", "operator", "submitter", "viewer"]
        begun_s = time.monotonic()
        await admin.revoke_token("operator")
        with pytest.raises(DeniedError, match="was revoked, or has ended"):
            await asking(cluster)
        assert time.monotonic() - begun_s < 5
        with pytest.raises(DeniedError, match="revoked"):
            async with made.cluster(Role.OPERATOR) as again:
                await again.topologies()
        with pytest.raises(ValueError, match="no token 'bob'"):
            await admin.revoke_token("bob")


async def test_ten_failures_a_minute_from_an_address(short_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with place(short_path) as made:
        wrong = Credentials("viewer", Secret(bytes(32)))
        with caplog.at_level(logging.WARNING):
            for _ in range(MOST):
                async with made.link(wrong) as link:
                    with pytest.raises(DeniedError):
                        await link.ask("topologies", {}, again=True)
            assert "unknown, wrong, revoked" in caplog.text
            caplog.clear()
            async with made.link(made.tokens[Role.VIEWER]) as link:  # the right one is not looked at either
                with pytest.raises(DeniedError):
                    await link.ask("topologies", {}, again=True)
            assert "10 failures within a minute" in caplog.text


@pytest.mark.parametrize("wrong", ["hash", "more", "empty", "huge", "no archive", "no hash"])
async def test_code_that_is_not_what_was_announced(short_path: Path, wrong: str) -> None:
    data = pack(code(short_path / "src"))
    sha256 = hashlib.sha256(data).hexdigest()
    sent, size_bytes = data, len(data)
    if wrong == "hash":
        sent = data[:-1] + bytes([data[-1] ^ 1])
    elif wrong == "more":
        sent = data + b"x"
    elif wrong == "empty":
        size_bytes = 0
    elif wrong == "huge":
        size_bytes = 2**62
    elif wrong == "no archive":
        sent, size_bytes = b"x" * 100, 100
        sha256 = hashlib.sha256(sent).hexdigest()
    elif wrong == "no hash":
        sha256 = "../../etc/passwd"
    async with place(short_path) as made, made.link(made.tokens[Role.SUBMITTER]) as link:
        kinds = []
        answer = await link._asked(request_frame("upload", {"size_bytes": size_bytes, "sha256": sha256}), sent)
        kinds.append(value_of(answer)[1])
        given = {"name": "words", "target": "words:topology", "workers": 1, "code": True}
        kinds.append(value_of(await link.ask("submit", given, again=False))[1])
        found = [error[0] for error in kinds if error is not None]
        assert found[0] in ("ArchiveError", "BlobError")
        assert await made.served.cluster.topologies() == []  # type: ignore[union-attr]
        assert not (made.folder / "home" / "blobs").exists()


async def test_code_belongs_to_its_connection(short_path: Path) -> None:
    """What one client has sent, another one cannot submit, though it knows the hash."""
    data = pack(code(short_path / "src"))
    announced = {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    given = {"name": "words", "target": "words:topology", "workers": 1, "code": True}
    async with place(short_path) as made, made.link(made.tokens[Role.SUBMITTER]) as one:
        assert value_of(await one._asked(request_frame("upload", announced), data))[1] is None
        async with made.link(made.tokens[Role.ADMIN]) as other:
            error = value_of(await other.ask("submit", given, again=False))[1]
            assert error is not None
            assert error[0] == "RequestError"
        [file] = os.listdir(made.folder / "code")
        assert (made.folder / "code" / file).stat().st_mode & 0o777 == 0o600
        one.close()
        for _ in range(500):
            await asyncio.sleep(0.01)
            if not os.listdir(made.folder / "code"):
                break
        assert os.listdir(made.folder / "code") == []


async def test_a_client_finds_another_nimbus_and_says_when_there_is_none(short_path: Path) -> None:
    async with place(short_path) as made:
        addresses = f"aiostorm://unix:{short_path}/none,{made.address}"
        async with Cluster(addresses, home=short_path, token_file=made.file(Role.VIEWER)) as cluster:
            assert await cluster.topologies() == []
        async with Cluster(f"aiostorm://unix:{short_path}/none", token_file=made.file(Role.VIEWER)) as cluster:
            with pytest.raises(UnavailableError, match="no nimbus answers: unix:"):
                await cluster.topologies()


async def test_while_the_store_cannot_be_reached_the_response_says_so(short_path: Path) -> None:
    async with place(short_path) as made, made.cluster(Role.VIEWER) as cluster:
        made.served.cluster = None
        with pytest.raises(UnavailableError, match="cannot reach the cluster's store"):
            await cluster.topologies()


async def test_where_no_audit_is_written_nothing_is_changed(short_path: Path) -> None:
    async with place(short_path) as made, made.cluster(Role.SUBMITTER) as cluster:
        (short_path / "audit.log").mkdir()
        with pytest.raises(Exception, match="without it nothing is changed"):
            await cluster.submit("words", "words:topology", check=False)
        assert await cluster.topologies() == []


async def test_a_token_is_needed_and_only_for_a_nimbus(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOSTORM_TOKEN_FILE", raising=False)
    with pytest.raises(ClusterError, match="aiostorm token add"):
        Cluster("aiostorm://127.0.0.1:1")
    with pytest.raises(ValueError, match="is a store"):
        Cluster(f"sqlite:{short_path}/x", token_file=short_path / "t")
    with pytest.raises(ValueError, match="not an address"):
        Cluster("aiostorm://nowhere", token_file=short_path / "t")
    (short_path / "t").write_bytes(Credentials.new("ann").to_bytes())
    (short_path / "t").chmod(0o644)
    with pytest.raises(CredentialsError, match="chmod 600"):
        async with Cluster("aiostorm://127.0.0.1:1", token_file=short_path / "t"):
            pass


# -- TCP and TLS -------------------------------------------------------------------------------------------------------


def certificates(folder: Path, name: str, hosts: tuple[str, ...] = ("127.0.0.1",), days: float = 2) -> TlsFiles:
    """A CA and a certificate of it, which is valid from yesterday on."""
    folder.mkdir()
    made = new_authority(name, time.time(), 10)
    issued = new_certificate(made.certificate, made.key, "n", hosts, time.time(), 2)
    if days < 0:
        issued = new_certificate(made.certificate, made.key, "n", hosts, time.time() - 9 * 86_400, 2)
    files = {"certificate.pem": issued.certificate, "key.pem": issued.key.reveal(), "ca.pem": made.certificate}
    for file, data in files.items():
        (folder / file).write_bytes(data)
        (folder / file).chmod(0o600)
    found = TlsFiles.in_folder(str(folder))
    return TlsFiles(found.certificate, found.key, found.ca, one_sided=True)


async def test_over_tcp_with_tls(short_path: Path) -> None:
    tls = certificates(short_path / "tls", "one")
    secured = Security(Credentials.new("cluster"), tls)
    async with place(short_path, "127.0.0.1:0", secured) as made:
        url = f"aiostorm://{made.address}"
        async with Cluster(url, token_file=made.file(Role.VIEWER), ca=tls.ca) as cluster:
            assert await cluster.topologies() == []


@pytest.mark.parametrize("wrong", ["plain", "foreign ca", "expired", "other host", "no file"])
async def test_tls_that_is_wrong_is_refused(short_path: Path, wrong: str) -> None:
    hosts = ("storm.example",) if wrong == "other host" else ("127.0.0.1",)
    tls = certificates(short_path / "tls", "one", hosts, -1 if wrong == "expired" else 2)
    ca: str | None = tls.ca
    if wrong == "plain":
        ca = None
    elif wrong == "foreign ca":
        ca = certificates(short_path / "other", "one").ca
    elif wrong == "no file":
        ca = str(short_path / "none.pem")
    secured = Security(Credentials.new("cluster"), tls)
    async with place(short_path, "127.0.0.1:0", secured) as made:
        # Each certificate is for 127.0.0.1, too: another address of this machine is dialled.
        address = made.address if wrong != "other host" else made.address.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises((UnavailableError, CredentialsError)):
            async with Cluster(f"aiostorm://{address}", token_file=made.file(Role.VIEWER), ca=ca) as cluster:
                await cluster.topologies()
        assert made.audit() == []


async def test_another_machine_needs_tls_on_the_clients_side(short_path: Path) -> None:
    (short_path / "t").write_bytes(Credentials.new("ann").to_bytes())
    (short_path / "t").chmod(0o600)
    async with Cluster("aiostorm://192.0.2.1:6700", token_file=short_path / "t") as cluster:
        with pytest.raises(ExposedError, match=r"192\.0\.2\.1 is another machine"):
            await cluster.topologies()


async def test_a_listener_that_only_has_a_ca_has_no_tls(short_path: Path) -> None:
    """Fails closed: a client's files are not enough to listen with."""
    ca = certificates(short_path / "tls", "one").ca
    async with SocketNetwork(Security(Credentials.new("x"), TlsFiles.of_authority(ca))) as network:
        with pytest.raises(ExposedError, match="needs TLS"):
            await network.listen("0.0.0.0:0", lambda connection: None)


async def test_silent_and_slow_clients_do_not_keep_others_out(short_path: Path) -> None:
    async with place(short_path) as made, SocketNetwork(Security(Credentials.new("x"))) as network:
        silent = [await network.connect(made.address) for _ in range(40)]
        async with made.cluster(Role.VIEWER) as cluster:
            assert await cluster.topologies() == []
        for connection in silent:
            connection.close()


async def test_before_the_handshake_little_is_read(short_path: Path) -> None:
    async with place(short_path) as made, SocketNetwork(Security(Credentials.new("x"))) as network:
        connection = await network.connect(made.address)
        connection.send(bytes(512 * 1024))
        with contextlib.suppress(ConnectionLostError):
            assert await connection.receive() == REFUSED
            await connection.receive()
        with pytest.raises(ConnectionLostError):
            await connection.receive()


async def test_what_names_code_without_sending_any(short_path: Path) -> None:
    async with place(short_path) as made, made.cluster(Role.SUBMITTER) as cluster:
        (short_path / "text").write_text("no archive")
        with pytest.raises(ArchiveError):
            await cluster.submit("words", "words:topology", code=short_path / "text", check=False)
        with pytest.raises((ArchiveError, RequestError)):
            await cluster.submit("words", "words:topology", code=b"no archive", check=False)
        assert await cluster.topologies() == []
