"""SparkEgressBolt over real sockets: what came out of the topology is kept until Spark has it, in bounded memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aiostorm import BasicBolt, TopologyBuilder, running
from aiostorm.spark import SparkEgressBolt, SparkIngressSpout, SparkSourceError
from aiostorm.spark.datasource.chunks import batch_of
from aiostorm.spark.executors import endpoints, messages
from aiostorm.spark.executors.client import ChunkReader, ServerClient
from aiostorm.testing import FeederSpout

from .lines import FIELDS, Table, batch, into, offers, out_of, topology, until, write

pytestmark = pytest.mark.sockets


class Reader:
    """What Spark's driver and executors do, in threads."""

    def __init__(self, folder: Path, consumer: str = "spark", task: int = 0) -> None:
        self.client = ServerClient(out_of(folder, patience_s=5), task)
        self.reader = ChunkReader(self.client, consumer)

    async def query(self, log: str = "", begin: int = -1, **named: Any) -> messages.LogState:
        return await asyncio.to_thread(lambda: self.reader.query(log, begin, **named))

    async def fetch(self, log: str, begin: int, end: int) -> list[int]:
        def read() -> list[int]:
            batches = map(batch_of, self.reader.fetch(log, begin, end))
            return [number for one in batches for number in one.column("n").to_pylist()]

        return await asyncio.to_thread(read)

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.close()


class Twice(BasicBolt):
    """Hands each chunk on, and fails its tree afterwards, once."""

    outputs = FIELDS

    def prepare(self, context: Any) -> None:
        self.seen: set[str] = set()

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        collector.emit_arrow(batch)
        await collector.drain()
        name = batch.schema.metadata[b"aiostorm.chunk"].decode()
        if name not in self.seen:
            self.seen.add(name)
            raise ValueError("once more")


@pytest.mark.parametrize("kept_on", ["disk", "memory"])
async def test_a_chunk_that_is_replayed_is_kept_once(tmp_path: Path, kept_on: str) -> None:
    directory = tmp_path / "log" if kept_on == "disk" else None
    for life in range(2):
        builder = TopologyBuilder()
        builder.set_spout("in", SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in")))
        builder.set_bolt("twice", Twice()).shuffle_grouping("in")
        egress = SparkEgressBolt(endpoints=str(tmp_path / "out"), directory=directory)
        builder.set_bolt("out", egress).shuffle_grouping("twice")
        async with running(builder.create_topology()), Reader(tmp_path / "out") as reader:
            await asyncio.to_thread(write, into(tmp_path / "in"), [batch(n) for n in range(0, 50, 10)], name="same")
            kept = await reader.query()
            # The same write in the next run of the topology: kept on disk it is known.
            assert (kept.first, kept.end) == (0, 5), life
            assert sorted(await reader.fetch(kept.log, 0, 5)) == list(range(50))


async def test_results_are_read_and_removed_after_the_commit(tmp_path: Path) -> None:
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"))
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with running(topology(Table(), spout, egress=egress)), Reader(tmp_path / "out") as reader:
        assert await asyncio.to_thread(reader.client.shape) == b""
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(n) for n in range(0, 50, 10)])
        kept = await reader.query()
        assert (kept.first, kept.committed, kept.upto, kept.end) == (0, 0, 5, 5)
        assert sorted(await reader.fetch(kept.log, 0, 5)) == list(range(50))
        assert (await reader.query(max_rows=25)).upto == 2
        await asyncio.to_thread(reader.reader.trim, kept.log, 2)
        assert (await reader.query()).first == 2
        assert (await reader.query(kept.log, 4, done=True)).first == 4  # a look behind what is done says so
        with pytest.raises(SparkSourceError, match="new checkpoint"):
            await reader.fetch(kept.log, 0, 1)
        with pytest.raises(SparkSourceError, match="is lost"):
            await reader.query("other", 0)
    assert endpoints.find(str(tmp_path / "out")) == []


async def test_a_sign_of_life_does_not_come_between_the_parts_of_a_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiostorm.spark.executors.server.ALIVE_S", 0.0001)
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"))
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    long = pa.array(["x" * 500_000] * 4)
    large = [batch(at, 4).set_column(1, "s", long) for at in (0, 4, 8)]
    async with running(topology(Table(), spout, egress=egress)), Reader(tmp_path / "out") as reader:
        await asyncio.to_thread(write, into(tmp_path / "in"), large)
        kept = await reader.query()
        for _ in range(3):
            assert sorted(await reader.fetch(kept.log, 0, 3)) == list(range(12))


async def test_a_full_log_holds_the_topology_back(tmp_path: Path) -> None:
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"), keep_rows=30)
    table = Table()
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with running(topology(table, spout, egress=egress)), Reader(tmp_path / "out") as reader:
        writing = asyncio.create_task(
            asyncio.to_thread(write, into(tmp_path / "in"), [batch(n) for n in range(0, 90, 10)])
        )
        seen: list[int] = []
        at, log = 0, ""
        while len(seen) < 90:
            kept = await reader.query(log, at, done=True) if log else await reader.query()
            assert kept.end - kept.first <= 3
            log = kept.log
            seen += await reader.fetch(log, at, kept.upto)
            at = kept.upto
        assert seen == list(range(90))
        assert await writing == 9


async def test_the_oldest_go_when_it_forgets(tmp_path: Path) -> None:
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"), keep_rows=30, when_full="forget")
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with running(topology(Table(), spout, egress=egress)), Reader(tmp_path / "out") as reader:
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(n) for n in range(0, 90, 10)])
        kept = await reader.query()
        assert (kept.first, kept.end) == (6, 9)
        assert await reader.fetch(kept.log, 6, 9) == list(range(60, 90))
        with pytest.raises(SparkSourceError, match="replaced by newer"):
            await reader.query(kept.log, 0)


async def test_two_consumers_each_get_all(tmp_path: Path) -> None:
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"), consumers=("a", "b"))
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with (
        running(topology(Table(), spout, egress=egress)),
        Reader(tmp_path / "out", "a") as a,
        Reader(tmp_path / "out", "b") as b,
        Reader(tmp_path / "out", "c") as c,
    ):
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0), batch(10)])
        kept = await a.query()
        await asyncio.to_thread(a.reader.trim, kept.log, 2)
        assert (await a.query()).committed == 2
        assert (await b.query()).committed == 0
        assert await b.fetch(kept.log, 0, 2) == list(range(20))
        with pytest.raises(SparkSourceError, match="consumer 'c'"):
            await c.query()


async def test_a_directory_survives_the_topology(tmp_path: Path) -> None:
    def egress() -> SparkEgressBolt:
        return SparkEgressBolt(endpoints=str(tmp_path / "out"), directory=tmp_path / "log")

    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with running(topology(Table(), spout, egress=egress())), Reader(tmp_path / "out") as reader:
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0), batch(10), batch(20)])
        before = await reader.query()
        await asyncio.to_thread(reader.reader.trim, before.log, 1)
    async with running(topology(Table(), spout, egress=egress())), Reader(tmp_path / "out") as reader:
        assert await asyncio.to_thread(reader.client.shape)
        await asyncio.to_thread(lambda: write(into(tmp_path / "in"), [batch(30)], name="later"))
        kept = await reader.query(before.log, 1)
        assert (kept.log, kept.first, kept.end) == (before.log, 1, 4)
        assert await reader.fetch(kept.log, 1, 4) == list(range(10, 40))


async def test_memory_does_not_and_says_so(tmp_path: Path) -> None:
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"))
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with running(topology(Table(), spout, egress=egress)), Reader(tmp_path / "out") as reader:
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0)])
        before = await reader.query()
    async with running(topology(Table(), spout, egress=egress)), Reader(tmp_path / "out") as reader:
        with pytest.raises(SparkSourceError, match="directory="):
            await reader.query(before.log, 1)


class Rows(BasicBolt):
    """Hands tuples on, one by one."""

    outputs = FIELDS

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


async def test_rows_are_kept_as_declared_and_others_fail(tmp_path: Path) -> None:
    schema = pa.schema([("s", pa.string()), ("n", pa.float64())])
    feeder = FeederSpout(FIELDS)
    builder = TopologyBuilder()
    builder.set_spout("feeder", feeder)
    builder.set_bolt("out", SparkEgressBolt(schema, endpoints=str(tmp_path / "out"))).shuffle_grouping("feeder")
    async with running(builder.create_topology()) as topo, Reader(tmp_path / "out") as reader:
        shape = await asyncio.to_thread(reader.client.shape)
        assert batch_of(shape).schema == schema
        await feeder.feed((1, "a"), message_id=1)
        await feeder.feed((2, None), message_id=2)
        await topo.wait_idle()
        kept = await reader.query()
        assert sorted(await reader.fetch(kept.log, 0, kept.end)) == [1.0, 2.0]
        await feeder.feed(("no number", "a"), message_id=3)
        await until(lambda: bool(topo.errors()))
        assert "n is string" in str(topo.errors()[-1])


async def test_a_topology_with_a_full_log_can_be_killed(tmp_path: Path) -> None:
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"), keep_rows=1)
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with asyncio.timeout(30), running(topology(Table(), spout, egress=egress)) as topo:
        waits = into(tmp_path / "in", patience_s=0.1)
        writing = asyncio.create_task(asyncio.to_thread(write, waits, [batch(0), batch(10), batch(20)]))
        async with Reader(tmp_path / "out") as reader:
            while (await reader.query()).end == 0:
                pass
        await topo.kill(0)
        with pytest.raises(Exception, match="the topology was not available"):
            await writing


async def test_an_invalid_message_of_a_reader_ends_its_connection(tmp_path: Path) -> None:
    egress = SparkEgressBolt(endpoints=str(tmp_path / "out"))
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"))
    async with running(topology(Table(), spout, egress=egress)):
        [(offer, _)] = offers([batch(0)])

        def speak(message: messages.Message) -> bool:
            with ServerClient(out_of(tmp_path / "out"), 0) as client:
                connection = client.connected()
                connection.send(messages.pack(message))
                return isinstance(messages.unpack(connection.receive()), messages.Rejected)

        for message in (
            offer,
            messages.FetchChunks("", 0, 7),
            messages.FetchChunks("x", 0, 0),
            messages.Trim("spark", "", 9),
            messages.LogQuery("", "", 3, False, 0, 0),
        ):
            assert await asyncio.to_thread(speak, message)
