"""The programs of nimbus and the supervisor: over the store in memory, and what their commands refuse."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiostorm.cli import cli
from aiostorm.cli.daemons import ClusterCode, isolation_of, keep_leading
from aiostorm.cli.errors import CommandError
from aiostorm.cluster import Home
from aiostorm.cluster.coordination import Coordination, MemoryStore, UnavailableError, leader
from aiostorm.cluster.coordination.memory import MemoryBackend
from aiostorm.cluster.coordination.polled import open_polled
from aiostorm.cluster.nimbus import CLUSTER, ClusterRecord, unpack
from aiostorm.cluster.supervisor import NoIsolation
from aiostorm.runtime import LoopClock


@asynccontextmanager
async def leading(store: MemoryStore, blobs: str | None, backends: list[MemoryBackend]) -> AsyncIterator[None]:
    """A nimbus of this store."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Coordination]:
        backends.append(store.backend())
        async with open_polled(backends[-1], LoopClock(), "the store") as coordination:
            yield coordination

    running = asyncio.create_task(keep_leading(opened, LoopClock(), b"me", blobs))
    await asyncio.sleep(1)
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_nimbus_describes_the_cluster_and_leads_again_after_its_session_was_lost() -> None:
    store = MemoryStore(LoopClock())
    backends: list[MemoryBackend] = []
    async with store.client(session_s=3600) as client, leading(store, "s3://code", backends):
        node = await client.get(CLUSTER)
        assert node is not None
        assert unpack(ClusterRecord, CLUSTER, node.value).blobs == "s3://code"
        assert await leader(client) == b"me"
        backends[-1].cut_off = True
        await asyncio.sleep(20)
        assert await leader(client) is None
        backends[-1].cut_off = False
        await asyncio.sleep(5)
        assert await leader(client) == b"me"
        assert len(backends) == 2


async def test_nimbus_waits_for_a_store_that_is_away() -> None:
    store = MemoryStore(LoopClock())
    store.away = True
    async with leading(store, None, []):
        await asyncio.sleep(30)
        store.away = False
        await asyncio.sleep(3)
        async with store.client() as client:
            assert await leader(client) == b"me"


async def test_another_place_of_code_is_refused() -> None:
    store = MemoryStore(LoopClock())
    async with leading(store, "s3://code", []):
        pass
    async with leading(store, "s3://code", []), leading(store, None, []):
        pass
    with pytest.raises(CommandError, match="the code of this cluster is in s3://code"):
        async with leading(store, "s3://other", []):
            pass


async def test_where_code_is_can_be_asked_again(tmp_path: Path) -> None:
    store = MemoryStore(LoopClock())
    code = ClusterCode(Home(tmp_path), store.client, LoopClock())
    store.away = True
    with pytest.raises(UnavailableError):
        await code.path("a" * 64)
    store.away = False
    await code.remove_unused([])
    await code.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nimbus", "--store", "foo:bar"], "a coordination store is"),
        (["supervisor", "--store", "foo:bar"], "a coordination store is"),
        (["supervisor", "--id", "a b"], "a supervisor's name"),
        (["supervisor", "--slots", "0"], "--slots"),
        (["supervisor", "--label", ""], "a label has"),
        (["nimbus", "--home", "/dev/null/x"], "cannot be used"),
        (["supervisor", "--host", "::"], "give the one address at which other nodes reach this one"),
        (["supervisor", "--host", "a b"], "is not an address"),
        (["supervisor", "--host", "192.0.2.1", "--insecure"], "processes of this node would not be reached there"),
        (["supervisor", "--host", "127.0.0.1", "--token-file", "/dev/zero", "--credentials", "/"], "use one of them"),
    ],
)
def test_what_is_refused(arguments: list[str], says: str, caplog: pytest.LogCaptureFixture) -> None:
    with tempfile.TemporaryDirectory(prefix="h") as folder:  # sockets need a short path
        home = [] if "--home" in arguments else ["--home", f"{folder}/home"]
        result = CliRunner().invoke(cli, [*arguments, *home])
    assert result.exit_code == 2
    assert says in result.output


def test_an_address_that_others_reach_needs_tls_and_a_token() -> None:
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        result = CliRunner().invoke(cli, ["supervisor", "--host", "192.0.2.1", "--home", f"{folder}/home"])
    assert result.exit_code == 78
    assert "it needs TLS" in result.output
    assert "--credentials DIR" in result.output


def test_a_certificate_without_the_roles_of_a_node_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    certs, runner = tmp_path / "certs", CliRunner()
    runner.invoke(cli, ["certs", "init", str(certs), "--cluster", "prod"])
    runner.invoke(cli, ["certs", "node", str(certs), "a", "--host", "127.0.0.1", "--role", "worker"])
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        words = ["supervisor", "--host", "127.0.0.1", "--credentials", str(certs / "nodes" / "a")]
        result = runner.invoke(cli, [*words, "--home", f"{folder}/home"])
    assert result.exit_code == 2
    assert "would not be reached there" in result.output
    assert "aiostorm certs node --role parent --role worker" in result.output


def test_a_supervisor_says_why_it_has_no_cgroups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert isinstance(isolation_of("none", Home(tmp_path), "a"), NoIsolation)
    assert "limits: rlimit" in caplog.text
    assert "no cgroups: --cgroup none" in caplog.text
    with pytest.raises(CommandError, match=r"--cgroup: .* is no folder of cgroup v2"):
        isolation_of(str(tmp_path), Home(tmp_path), "a")
