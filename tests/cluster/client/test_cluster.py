"""Cluster over the store in memory, with the real nimbus, in virtual time: orders, and waiting for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from aiostorm import Cluster, Config
from aiostorm.cluster import ClusterError, NoClusterError, NotRunningError
from aiostorm.cluster.code import Blobs, digest, pack
from aiostorm.cluster.coordination import Coordination, Create, Delete, MemoryStore, Put, UnavailableError
from aiostorm.cluster.nimbus import (
    CLUSTER,
    ERRORS,
    MAX_WAIT_S,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    ClusterRecord,
    ErrorEntry,
    ErrorsRecord,
    Nimbus,
    OrderError,
    ParentRecord,
    RecordError,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    path_of,
    unpack,
)
from aiostorm.cluster.nimbus import (
    pack as packed,
)
from aiostorm.runtime import LoopClock
from aiostorm.topology import ConfigError

SOON_S = 1.0


class World:
    """A store, a client, and daemons: nimbus is the real one, supervisors and parents write records."""

    def __init__(self, store: MemoryStore, stack: contextlib.AsyncExitStack, home: Path) -> None:
        self.store = store
        self.home = home
        self._stack = stack
        self._daemons: dict[str, contextlib.AsyncExitStack] = {}
        self._clients: dict[str, Coordination] = {}

    def cluster(self) -> Cluster:
        return Cluster("memory:", home=self.home, open_store=lambda url, clock: self.store.client(session_s=3600))

    async def _daemon(self, name: str) -> Coordination:
        own = self._daemons[name] = await self._stack.enter_async_context(contextlib.AsyncExitStack())
        self._clients[name] = client = await own.enter_async_context(self.store.client(session_s=3600))
        return client

    async def nimbus(self, name: str = "nimbus-1") -> None:
        nimbus = Nimbus(await self._daemon(name), LoopClock(), name.encode())
        task = asyncio.create_task(nimbus.run())
        self._daemons[name].callback(task.cancel)
        await asyncio.sleep(SOON_S)

    async def supervisor(self, name: str, slots: int, labels: frozenset[str] = frozenset()) -> None:
        record = SupervisorRecord(f"host-of-{name}", "unix:x", slots, "0.1.0", labels)
        await self._create(name, SUPERVISORS, name, packed(record))

    async def parent(self, topology: str, record: ParentRecord) -> None:
        """A parent says this of itself."""
        name = f"parent of {topology}"
        if name not in self._clients:
            await self._create(name, PARENTS, topology, packed(record))
        else:
            await self._clients[name].commit([Put(path_of(PARENTS, topology), packed(record)), Put(PARENTS, b"")])

    async def end(self, name: str) -> None:
        await self._daemons.pop(name).aclose()
        del self._clients[name]

    async def _create(self, daemon: str, folder: str, name: str, value: bytes) -> None:
        client = await self._daemon(daemon)
        await client.commit([Create(path_of(folder, name), value, ephemeral=True), Put(folder, b"")])


@asynccontextmanager
async def world(tmp_path: Path, *, nimbus: bool = True) -> AsyncIterator[World]:
    store = MemoryStore(LoopClock())
    async with contextlib.AsyncExitStack() as stack:
        made = World(store, stack, tmp_path / "home")
        if nimbus:
            await made.nimbus()
        yield made
    await asyncio.sleep(0)  # cancelled tasks end


def code(folder: Path, text: str = "topology = 1\n") -> Path:
    folder.mkdir()
    (folder / "words.py").write_text(text)
    return folder


async def test_a_topology_from_its_submission_to_its_end(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 3, frozenset({"ssd"}))
        await made.supervisor("b", 2)
        assert await cluster.topologies() == []
        assert await cluster.leader() == "nimbus-1"
        submitted = await cluster.submit("words", "words:topology", {"my.key": 1}, workers=4, check=False)
        assert (submitted.name, submitted.state, submitted.wanted) == ("words", "WAITING", "ACTIVE")
        assert not submitted.runs
        waiting = asyncio.create_task(cluster.wait_running("words"))
        await asyncio.sleep(SOON_S)
        (found,) = await cluster.topologies()
        assert (found.state, found.workers, found.generation) == ("STARTING", 4, 1)
        assert found.where.keys() == {"parent", "worker-1", "worker-2", "worker-3", "worker-4"}
        assert set(found.where.values()) == {"a", "b"}
        await made.parent("words", ParentRecord("a", 1, state="STARTING", started_s=5.0))
        await asyncio.sleep(SOON_S)
        assert not waiting.done()
        await made.parent("words", ParentRecord("a", 1, state="ACTIVE", started_s=5.0))
        running = await waiting
        assert running is not None
        assert running.runs
        assert running.started_s == 5.0

        nodes = await cluster.nodes()
        assert [(node.name, node.host, node.slots, node.labels, node.version) for node in nodes] == [
            ("a", "host-of-a", 3, ("ssd",), "0.1.0"),
            ("b", "host-of-b", 2, (), "0.1.0"),
        ]
        assert sum(node.used for node in nodes) == 4
        assert [name for node in nodes for name in node.parents] == ["words"]

        await cluster.deactivate("words")
        assert (await cluster.topology("words")).wanted == "INACTIVE"
        await cluster.activate("words")
        assert (await cluster.topology("words")).wanted == "ACTIVE"

        await cluster.kill("words", 7.5)
        found = await cluster.topology("words")
        assert (found.state, found.record.wait_s) == ("ENDING", 7.5)
        await cluster.kill("words", 1.0)  # again changes nothing
        assert (await cluster.topology("words")).record.wait_s == 7.5
        with pytest.raises(OrderError, match="is being killed"):
            await cluster.activate("words")
        with pytest.raises(TimeoutError):
            await cluster.wait_ended("words", 3)
        async with asyncio.TaskGroup() as group:
            group.create_task(cluster.wait_ended("words"))
            await made.end("parent of words")
        assert await cluster.topologies() == []
        await cluster.wait_ended("words")
        assert await cluster.wait_running("words") is None


async def test_why_it_waits(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await cluster.submit("words", "words:topology", workers=3, labels=["gpu"], check=False)
        with pytest.raises(
            NotRunningError, match=r"does not run after 5 s: 3 slots are needed, and 0 are free: no super"
        ):
            await cluster.wait_running("words", 5)
        await made.supervisor("a", 3)
        await asyncio.sleep(SOON_S)
        assert "none of 1 supervisors has the labels gpu" in (await cluster.topology("words")).waiting
        await made.supervisor("b", 3, frozenset({"gpu"}))
        await asyncio.sleep(SOON_S)
        found = await cluster.topology("words")
        assert (found.waiting, set(found.where.values())) == ("", {"b"})


async def test_a_topology_that_fails(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 3)
        await cluster.submit("words", "words:topology", check=False)
        waiting = asyncio.create_task(cluster.wait_running("words", None))
        await asyncio.sleep(SOON_S)
        await made.parent("words", ParentRecord("a", 1, state="FAILED", degraded="split raised ValueError"))
        with pytest.raises(NotRunningError, match="'words' has failed: split raised ValueError"):
            await waiting


async def test_a_failed_topology_that_is_rebalanced_is_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 3)
        await cluster.submit("words", "words:topology", check=False)
        await asyncio.sleep(SOON_S)
        await made.parent("words", ParentRecord("a", 1, state="FAILED", degraded="of before"))
        await cluster.rebalance("words")
        waiting = asyncio.create_task(cluster.wait_running("words"))
        await asyncio.sleep(SOON_S)
        assert not waiting.done(), "what has failed is of before the rebalance"
        await made.parent("words", ParentRecord("a", 2, state="ACTIVE"))
        assert await waiting is not None
        await cluster.rebalance("words")
        with pytest.raises(NotRunningError, match="it is ACTIVE as before the rebalance"):
            await cluster.wait_running("words", 3)


async def test_the_last_error_is_named_if_it_does_not_run(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 3)
        submitted = await cluster.submit("words", "words:topology", check=False)
        at_s = submitted.submitted_s
        errors = (ErrorEntry(at_s - 1, "old", "of a former one"), ErrorEntry(at_s + 1, "parent", "no module words"))
        async with made.store.client() as other:
            await other.commit([Create(path_of(ERRORS, "words"), packed(ErrorsRecord(errors)))])
        with pytest.raises(
            NotRunningError, match=r"it is STARTING; its last error: parent: no module words \(aiostorm lo"
        ):
            await cluster.wait_running("words", 5)
        assert await cluster.errors("words") == errors
        with pytest.raises(OrderError, match="no topology 'wrods': did you mean 'words'"):
            await cluster.errors("wrods")


async def test_a_rebalance_is_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 4)
        await cluster.submit("words", "words:topology", workers=2, check=False)
        await asyncio.sleep(SOON_S)
        await made.parent("words", ParentRecord("a", 1, state="ACTIVE"))
        await cluster.rebalance("words", 4)
        found = await cluster.topology("words")
        assert (found.generation, found.running_generation, found.runs) == (2, 1, False)
        waiting = asyncio.create_task(cluster.wait_running("words"))
        await asyncio.sleep(SOON_S)
        assert not waiting.done()
        await made.parent("words", ParentRecord("a", 2, state="ACTIVE"))
        running = await waiting
        assert running is not None
        assert len(running.where) == 5


async def test_one_that_ends_while_it_is_waited_for(tmp_path: Path) -> None:
    """Its spouts have nothing more: the parent kills it before it is seen running."""
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 4)
        await cluster.submit("words", "words:topology", check=False)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(cluster.wait_running("words", None))
            await cluster.kill("words")
        found = waiting.result()
        assert found is None or found.wanted == "KILLED"


async def test_another_one_of_the_same_name_is_not_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path, nimbus=False) as made, made.store.client() as daemon:
        await make_folders(daemon)
        async with made.cluster() as cluster:
            first = await cluster.submit("words", "words:topology", check=False)
            waiting = asyncio.create_task(cluster.wait_ended("words"))
            await asyncio.sleep(SOON_S)
            path = path_of(TOPOLOGIES, "words")
            again = packed(replace(first.record, submitted_s=first.submitted_s + 1))
            await daemon.commit([Delete(path), Create(path, again), Put(TOPOLOGIES, b"")])
            await waiting


async def test_code_is_stored_before_its_record(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        folder = code(tmp_path / "in")
        found = await cluster.submit("words", "words:topology", code=folder, check=False)
        assert found.record.blob == digest(pack(folder))
        async with Blobs(str(tmp_path / "home" / "blobs")) as blobs:
            assert await blobs.fetch(found.record.blob) == pack(folder)
        again = await cluster.submit("words-2", "words:topology", code=pack(folder), check=False)
        assert again.record.blob == found.record.blob
        assert again.record.submitted_by.count("@") == 1
        assert stat.S_IMODE(os.stat(tmp_path / "home").st_mode) == 0o700, "daemons would refuse another mode"


async def test_code_goes_where_the_cluster_says(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 1)
        folder = code(tmp_path / "in")
        with pytest.raises(ClusterError, match="where a cannot find it: start a cluster of several machines"):
            await cluster.submit("words", "words:topology", code=folder, check=False)
        assert not await cluster.topologies()
        async with made.store.client() as other:
            value = packed(ClusterRecord(str(tmp_path / "elsewhere")))
            await other.commit([Create(CLUSTER, value) if await other.get(CLUSTER) is None else Put(CLUSTER, value)])
        found = await cluster.submit("words-2", "words:topology", code=folder, check=False)
        assert (tmp_path / "elsewhere" / f"{found.record.blob}.blob").is_file()


async def test_snapshots_in_a_folder_of_one_node_are_refused_where_there_may_be_several(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 1)
        conf = {"topology.guarantee": "exactly-once", "topology.state.dir": "/var/state"}
        with pytest.raises(ConfigError, match="has workers on other machines"):
            await cluster.submit("words", "words:topology", conf, check=False)
        assert not await cluster.topologies()
        await cluster.submit("words", "words:topology", conf | {"topology.state.dir": "s3://state"}, check=False)


async def test_no_leader_is_said_and_the_order_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.end("nimbus-1")
        await asyncio.sleep(SOON_S)
        await cluster.submit("words", "words:topology", check=False)
        assert "no nimbus leads now: the order is kept" in caplog.text
        with pytest.raises(NotRunningError, match="no supervisor is there"):
            await cluster.wait_running("words", 2)
        await made.supervisor("a", 2)
        with pytest.raises(NotRunningError, match="it is WAITING, and no nimbus leads: start one"):
            await cluster.wait_running("words", 2)
        await made.nimbus("nimbus-2")
        assert (await cluster.topology("words")).state == "STARTING"


async def test_what_is_no_cluster_yet(tmp_path: Path) -> None:
    async with world(tmp_path, nimbus=False) as made, made.cluster() as cluster:
        for call in (
            cluster.submit("words", "words:topology", check=False),
            cluster.topologies(),
            cluster.nodes(),
            cluster.kill("words"),
            cluster.rebalance("words"),
        ):
            with pytest.raises(NoClusterError, match="is no cluster yet: start its daemons, `aiostorm nimbus` and"):
                await call
    with pytest.raises(NoClusterError, match="is no cluster yet"):
        async with Cluster(home=tmp_path / "none"):
            pytest.fail("there is none")
    assert not (tmp_path / "none").exists(), "and none was made"
    with pytest.raises(ClusterError, match="the cluster is not open"):
        await made.cluster().topologies()


async def test_the_store_is_away_for_a_moment(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 2)
        await cluster.submit("words", "words:topology", check=False)
        waiting = asyncio.create_task(cluster.wait_running("words", None))
        await asyncio.sleep(SOON_S)
        made.store.away = True
        with pytest.raises(UnavailableError):
            await cluster.topologies()
        await asyncio.sleep(60)
        made.store.away = False
        await made.parent("words", ParentRecord("a", 1, state="INACTIVE"))
        running = await waiting
        assert running is not None
        assert running.state == "INACTIVE"


async def test_what_cannot_be_submitted(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await cluster.submit("words", "words:topology", check=False)
        with pytest.raises(OrderError, match="'words' is there already: kill it, or take another name"):
            await cluster.submit("words", "words:topology", check=False)
        with pytest.raises(ValueError, match="1 to 1,000 workers, not 1,001"):
            await cluster.submit("x", "words:topology", workers=1001, check=False)
        with pytest.raises(ValueError, match="1 to 1,000 workers, not 0"):
            await cluster.submit("x", "words:topology", workers=0, check=False)
        with pytest.raises(ValueError, match="1 to 1,000 workers, not 5,000"):
            await cluster.rebalance("words", 5000)
        with pytest.raises(ValueError, match="a topology's name is"):
            await cluster.submit("a/b", "words:topology", check=False)
        with pytest.raises(ValueError, match="that is not checked needs a name"):
            await cluster.submit("", "words:topology", check=False)
        with pytest.raises(ClusterError, match="is a file of this machine: submit its folder as the code"):
            await cluster.submit("x", "jobs/words.py:topology", check=False)
        folder = code(tmp_path / "in")
        with pytest.raises(RecordError, match="give large settings in a file of the code"):
            await cluster.submit("x", "words:topology", arguments=["y" * 70_000], code=folder, check=False)
        assert not (tmp_path / "home" / "blobs").exists(), "nothing is stored for what is refused"
        for wait_s in (-1.0, math.inf, math.nan, MAX_WAIT_S):
            with pytest.raises(ValueError, match="may drain for 0 to"):
                await cluster.kill("words", wait_s)


@pytest.mark.parametrize(
    ("workers", "conf", "count"), [(None, None, 2), (None, Config(workers=5), 5), (3, Config(workers=5), 3)]
)
async def test_how_many_workers(tmp_path: Path, workers: int | None, conf: Config | None, count: int) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        assert (await cluster.submit("x", "a:b", conf, workers=workers, check=False)).workers == count


async def test_a_record_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await cluster.submit("words", "words:topology", check=False)
        async with made.store.client() as other:
            await other.commit([Create(f"{TOPOLOGIES}/bad", b"?")])
        with caplog.at_level(logging.WARNING):
            assert [found.name for found in await cluster.topologies()] == ["words"]
        assert "/topologies/bad holds no TopologyRecord" in caplog.text
        node = None
        async with made.store.client() as other:
            node = await other.get(path_of(TOPOLOGIES, "words"))
        assert node is not None
        assert unpack(TopologyRecord, "/topologies/words", node.value).target == "words:topology"
