"""SparkIngressSpout over real sockets: what is written is processed before the writer returns, whatever happens."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aiostorm import running
from aiostorm.spark import SparkIngressSpout, SparkLostError, SparkSourceError
from aiostorm.spark.executors import messages
from aiostorm.spark.executors.client import ChunkWriter, ServerClient
from aiostorm.spark.executors.location import ServerLocation
from aiostorm.transport import Credentials, ExposedError

from .lines import FIELDS, Table, batch, into, offers, topology, until, write

pytestmark = pytest.mark.sockets

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


async def test_all_is_processed_when_the_writer_returns(tmp_path: Path) -> None:
    table = Table()
    async with running(topology(table, SparkIngressSpout(SCHEMA, endpoints=str(tmp_path / "in")))):
        assert await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0), batch(10)]) == 2
        assert sorted(table.numbers) == list(range(20))
        assert table.chunks == {"w/0/0": 1, "w/0/1": 1}
        assert await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0), batch(10)]) == 2  # Spark tries again
        assert table.chunks == {"w/0/0": 1, "w/0/1": 1}
    assert os.listdir(tmp_path / "in") == ["credentials"]
    assert os.stat(tmp_path / "in/credentials").st_mode & 0o777 == 0o600


async def test_many_writers_at_once_and_several_tasks(tmp_path: Path) -> None:
    table = Table()
    async with running(topology(table, SparkIngressSpout(FIELDS, endpoints=str(tmp_path)), tasks=3)):
        os.chmod(tmp_path, 0o700)
        where = into(tmp_path)
        assert [one.task for one in where.tasks()] == [0, 1, 2]
        async with asyncio.TaskGroup() as group:
            for partition in range(6):
                batches = [batch(partition * 100 + at * 10) for at in range(10)]
                group.create_task(asyncio.to_thread(write, where, batches, partition))
        assert sorted(table.numbers) == list(range(600))


async def test_a_slow_topology_holds_the_writer_back(tmp_path: Path) -> None:
    table = Table()
    table.gate.clear()
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"), max_bytes=2000)
    async with running(topology(table, spout)):
        writing = asyncio.create_task(
            asyncio.to_thread(write, into(tmp_path / "in"), [batch(n) for n in range(0, 500, 10)])
        )
        await until(lambda: table.waiting > 0)
        assert not writing.done()
        table.gate.set()
        assert await writing == 50
        assert sorted(table.numbers) == list(range(500))


async def test_a_failed_chunk_is_processed_again(tmp_path: Path) -> None:
    table = Table()
    table.fails["w/0/1"] = 2
    async with running(topology(table, SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in")))):
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0), batch(10), batch(20)])
        assert sorted(table.numbers) == list(range(30))


async def test_a_chunk_that_always_fails_is_an_error_that_names_it(tmp_path: Path) -> None:
    table = Table()
    table.fails["w/0/1"] = 3
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"), retries=1)
    async with running(topology(table, spout)):
        with pytest.raises(SparkSourceError, match=r"w/0/1 in sink: .*is bad.* \(2 times\)"):
            await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0), batch(10)])
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0), batch(10)])  # Spark tries the task again
        assert sorted(table.numbers) == list(range(20))


async def test_a_partition_that_comes_out_different_is_an_error(tmp_path: Path) -> None:
    table = Table()
    async with running(topology(table, SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in")))):
        await asyncio.to_thread(write, into(tmp_path / "in"), [batch(0)])
        with pytest.raises(SparkSourceError, match="other contents"):
            await asyncio.to_thread(write, into(tmp_path / "in"), [batch(1)])


async def test_a_batch_that_comes_again_is_not_processed_again(tmp_path: Path) -> None:
    table = Table()
    async with running(topology(table, SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in")))):
        where = into(tmp_path / "in")
        named: dict[str, Any] = {"stream": "query", "number": 17, "name": "clicks"}
        await asyncio.to_thread(lambda: write(where, [batch(0)], **named))

        def commit() -> None:
            with ServerClient(where, 0) as client:
                ChunkWriter(client).commit("query", 17)

        await asyncio.to_thread(commit)
        await asyncio.to_thread(lambda: write(where, [batch(0)], **named))
        assert table.chunks == {"clicks/b17/0/0": 1}


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"n": pa.array([1])}, "missing: s"),
        ({"n": pa.array([1]), "s": ["a"], "x": [1]}, "not declared: x"),
        ({"n": pa.array([1.5]), "s": ["a"]}, "n is double, declared int64"),
    ],
)
async def test_other_columns_are_refused(tmp_path: Path, columns: dict[str, Any], why: str) -> None:
    async with running(topology(Table(), SparkIngressSpout(SCHEMA, endpoints=str(tmp_path / "in")))):
        with pytest.raises(SparkSourceError, match=why):
            await asyncio.to_thread(write, into(tmp_path / "in"), [pa.record_batch(columns)])


async def test_columns_come_in_the_declared_order(tmp_path: Path) -> None:
    table = Table()
    async with running(topology(table, SparkIngressSpout(SCHEMA, endpoints=str(tmp_path / "in")))):
        turned = batch(0).select(["s", "n"])
        await asyncio.to_thread(write, into(tmp_path / "in"), [turned])
        assert table.numbers == list(range(10))


async def test_the_next_life_of_the_topology_is_found(tmp_path: Path) -> None:
    """The writer is in the middle when the topology ends; what was not acked goes to the next one."""
    folder = tmp_path / "in"
    first, second = Table(), Table()
    first.fails["w/0/3"] = 1_000_000
    spout = SparkIngressSpout(FIELDS, endpoints=str(folder), retries=1_000_000)
    batches = [batch(n) for n in range(0, 200, 10)]
    async with asyncio.TaskGroup() as group:
        async with running(topology(first, spout)) as topo:
            writing = group.create_task(asyncio.to_thread(write, into(folder), batches))
            await until(lambda: first.chunks["w/0/2"] > 0)
            await topo.kill(0)
        assert not writing.done()
        async with running(topology(second, SparkIngressSpout(FIELDS, endpoints=str(folder)))):
            assert await writing == 20
    assert {*first.numbers, *second.numbers} == set(range(200))
    assert second.chunks["w/0/3"] == 1


async def test_no_topology_is_running(tmp_path: Path) -> None:
    with pytest.raises(SparkSourceError, match="endpoints="):
        await asyncio.to_thread(write, into(tmp_path / "none", patience_s=0), [batch(0)])
    with pytest.raises(SparkLostError, match=r"no task is available"):
        await asyncio.to_thread(write, into(tmp_path, patience_s=0.2), [batch(0)])
    (tmp_path / "token").write_bytes(Credentials.new("spark").to_bytes())
    (tmp_path / "token").chmod(0o600)
    away = ServerLocation(messages.ROLE_INGRESS, None, ("127.0.0.1:1",), str(tmp_path / "token"), patience_s=0.2)
    with pytest.raises(SparkLostError, match=r"127\.0\.0\.1:1"):
        await asyncio.to_thread(write, away, [batch(0)])


async def test_another_token_is_refused_at_once(tmp_path: Path) -> None:
    async with running(topology(Table(), SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in")))):
        (tmp_path / "token").write_bytes(Credentials.new("spark").to_bytes())
        (tmp_path / "token").chmod(0o600)
        with pytest.raises(SparkSourceError, match="token"):
            await asyncio.to_thread(write, into(tmp_path / "in", credentials=str(tmp_path / "token")), [batch(0)])
        (tmp_path / "token").chmod(0o644)
        with pytest.raises(ValueError, match="chmod 600"):
            await asyncio.to_thread(write, into(tmp_path / "in", credentials=str(tmp_path / "token")), [batch(0)])


async def test_by_addresses_and_a_unix_socket(tmp_path: Path, short_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(Credentials.new("spark").to_bytes())
    token.chmod(0o600)
    table = Table()
    spout = SparkIngressSpout(FIELDS, listen=f"unix:{short_path}/sockets/in", credentials=str(token))
    async with running(topology(table, spout, tasks=2)):
        addresses = tuple(f"unix:{short_path}/sockets/in.{task}" for task in range(2))
        where = ServerLocation(messages.ROLE_INGRESS, None, addresses, str(token))
        await asyncio.to_thread(write, where, [batch(0)], 0)
        await asyncio.to_thread(write, where, [batch(10)], 1)
        assert sorted(table.numbers) == list(range(20))


async def test_an_open_address_is_refused(tmp_path: Path) -> None:
    spout = SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in"), listen="0.0.0.0:0")
    with pytest.raises(Exception, match="TLS") as raised:
        async with running(topology(Table(), spout), {"restart_max": 0}):
            pass
    causes = [raised.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert any(isinstance(cause, ExposedError) for cause in causes)


async def test_a_folder_that_other_users_can_access_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # noqa: ASYNC240 - a test's folder
    with pytest.raises(Exception, match="chmod 700"):
        async with running(topology(Table(), SparkIngressSpout(FIELDS, endpoints=str(tmp_path))), {"restart_max": 0}):
            pass


def test_without_a_place_for_a_token_it_is_no_spout() -> None:
    with pytest.raises(SparkSourceError, match="endpoints=FOLDER"):
        SparkIngressSpout(FIELDS)


async def test_an_invalid_message_of_a_writer_ends_its_connection_only(tmp_path: Path) -> None:
    table = Table()
    async with running(topology(table, SparkIngressSpout(FIELDS, endpoints=str(tmp_path / "in")))):
        where = into(tmp_path / "in")

        def speak(frame: bytes) -> str:
            with ServerClient(where, 0) as client:
                connection = client.connected()
                connection.send(frame)
                message = messages.unpack(connection.receive())
                return message.reason if isinstance(message, messages.Rejected) else ""

        [(offer, data)] = offers([batch(0)])
        large = messages.Offer(1, "", -1, "w/0/0", 1, b"x", messages.MAX_CHUNK_BYTES + 1)
        for frame in (
            b"\xff",
            messages.DATA + data,
            messages.pack(large),
            messages.pack(messages.Alive()),
            messages.pack(messages.Trim("a", "", 0)),
        ):
            assert await asyncio.to_thread(speak, frame)
        wrong = messages.Offer(1, "", -1, "w/0/0", 1, b"x" * 16, len(data))

        def lie() -> str:
            with ServerClient(where, 0) as client:
                connection = client.connected()
                connection.send(messages.pack(wrong))
                assert isinstance(messages.unpack(connection.receive()), messages.Send)
                connection.send(messages.DATA, data)
                message = messages.unpack(connection.receive())
                return message.reason if isinstance(message, messages.Rejected) else ""

        assert "digest" in await asyncio.to_thread(lie)
        assert await asyncio.to_thread(write, where, [batch(0)]) == 1
        assert offer.chunk in table.chunks
