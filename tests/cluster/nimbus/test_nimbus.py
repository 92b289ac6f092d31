"""Nimbus over the store in memory, in virtual time: it assigns, moves, ends, leads in turn, and waits for its store."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiostorm.cluster.coordination import (
    Create,
    Delete,
    MemoryStore,
    Put,
    SessionLostError,
    leader,
)
from aiostorm.cluster.coordination.memory import MemoryBackend
from aiostorm.cluster.coordination.polled import SESSION_S, open_polled
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    PARENTS,
    REASSIGN_S,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    FailedProcess,
    Nimbus,
    OrderError,
    ParentRecord,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    pack,
    path_of,
    rebalance,
    submit,
    unpack,
    want,
)
from aiostorm.runtime import LoopClock

from .parts import SOON_S, TWO, cluster


async def test_a_topology_is_placed_and_ended() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        assert await made.assignment("words") == AssignmentRecord(1, "a", ("a", "a"))
        # Its parent runs; the topology is killed, and keeps its place until the parent has ended.
        async with made.store.client() as parent:
            record = ParentRecord("a", 1)
            await parent.commit([Create(path_of(PARENTS, "words"), pack(record), ephemeral=True)])
            await want(made.client, "words", "KILLED")
            await asyncio.sleep(30)
            assert await made.assignment("words") is not None
        await asyncio.sleep(SOON_S)
        assert await made.assignment("words") is None
        assert await made.client.children(TOPOLOGIES) == []
        await submit(made.client, "words", TWO)  # its name is free again


async def test_what_does_not_stay_alive_is_moved_and_its_node_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await made.supervisor("b", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        assert await made.assignment("words") == AssignmentRecord(1, "a", ("a", "b"))

        async def name_failed(*processes: str) -> None:
            failed = tuple(FailedProcess("words", process, 1, 0.0, "exit code 1") for process in processes)
            record = SupervisorRecord("host", "address", 2, failed=failed)
            await made.client.commit([Put(path_of(SUPERVISORS, "a"), pack(record)), Put(SUPERVISORS, b"")])
            await asyncio.sleep(SOON_S)

        await name_failed("worker-1", "worker-2", "parent")
        assert await made.assignment("words") == AssignmentRecord(1, "b", ("b", "b"))
        assert "a gets work last: many processes do not stay alive there" in caplog.messages
        await submit(made.client, "more", TopologyRecord("words:topology"))
        await asyncio.sleep(SOON_S)
        assert await made.assignment("more") == AssignmentRecord(1, "b", ("a",)), "better there than nowhere"
        await name_failed()
        assert "a gets work as the others do" in caplog.messages


async def test_it_waits_for_slots_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as made:
        nimbus = await made.nimbus("n1")
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        assert nimbus.waiting.keys() == {"words"}
        assert "no supervisor is there: start one" in nimbus.waiting["words"]
        await made.supervisor("a", 1)
        await asyncio.sleep(SOON_S)
        assert "2 slots are needed, and 1 are free" in nimbus.waiting["words"]
        await made.supervisor("b", 1)
        await asyncio.sleep(SOON_S)
        assert not nimbus.waiting
        assert await made.assignment("words") == AssignmentRecord(1, "a", ("a", "b"))
    said = [record.message for record in caplog.records if "words waits: " in record.message]
    assert len(said) == 2, "each reason once"


async def test_processes_of_a_lost_supervisor_move_after_a_while() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        await made.supervisor("b", 2)
        await asyncio.sleep(SOON_S)
        await made.end("a")
        await asyncio.sleep(REASSIGN_S - 1)
        assert await made.assignment("words") == AssignmentRecord(1, "a", ("a", "a"))
        await made.supervisor("a", 2)  # it was restarted
        await asyncio.sleep(60)
        assert await made.assignment("words") == AssignmentRecord(1, "a", ("a", "a"))
        await made.end("a")
        await asyncio.sleep(REASSIGN_S + SOON_S)
        assert await made.assignment("words") == AssignmentRecord(1, "b", ("b", "b"))


async def test_a_rebalance() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 4)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        await made.supervisor("b", 4)
        await asyncio.sleep(SOON_S)
        assert await made.assignment("words") == AssignmentRecord(1, "a", ("a", "a"))
        await rebalance(made.client, "words", 4)
        await asyncio.sleep(SOON_S)
        assert await made.assignment("words") == AssignmentRecord(2, "a", ("a", "a", "b", "b"), renewed=1)


# -- several nimbuses, and a store that is away ------------------------------------------------------------------------


async def test_slots_that_a_rebalance_frees_are_given_at_once_to_those_that_were_planned_before() -> None:
    async with cluster() as made:
        nimbus = await made.nimbus("n1")
        await made.supervisor("a", 1)
        await submit(made.client, "first", TopologyRecord("words:topology"))
        await asyncio.sleep(SOON_S)
        await made.supervisor("b", 2)
        await submit(made.client, "second", TWO)
        await asyncio.sleep(SOON_S)
        await made.end("a")
        await asyncio.sleep(REASSIGN_S + SOON_S)
        assert "1 of 1 workers were on supervisors that are lost" in nimbus.waiting["first"]
        await rebalance(made.client, "second", workers=1)
        await asyncio.sleep(SOON_S)
        assert await made.assignment("second") == AssignmentRecord(2, "b", ("b",), renewed=1)
        assert await made.assignment("first") == AssignmentRecord(1, "b", ("b",))
        assert not nimbus.waiting


async def test_another_one_takes_over_and_a_new_leader_counts_anew() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await asyncio.sleep(SOON_S)
        await made.nimbus("n2")
        await made.supervisor("a", 2)
        await made.supervisor("b", 2)
        await submit(made.client, "words", TopologyRecord("words:topology", labels=frozenset(), workers=2))
        await asyncio.sleep(SOON_S)
        assert await leader(made.client) == b"n1"
        before = await made.assignment("words")
        await made.end("a")
        await asyncio.sleep(REASSIGN_S - 1)
        await made.end("n1")
        await asyncio.sleep(SOON_S)
        assert await leader(made.client) == b"n2"
        await asyncio.sleep(REASSIGN_S - 2)
        assert await made.assignment("words") == before, "it has not seen it missing for that long"
        await asyncio.sleep(2)
        after = await made.assignment("words")
        assert after == AssignmentRecord(1, "b", ("b", "b"))


async def test_a_store_that_is_away_for_ten_minutes_moves_nothing() -> None:
    async with cluster() as made:
        store = made.store
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await made.supervisor("b", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        before = await made.assignment("words")
        await made.end("b")
        await asyncio.sleep(REASSIGN_S / 2)
        store.away = True
        await asyncio.sleep(600)
        # The sessions of all have ended meanwhile. A supervisor comes back within its time, and a nimbus, too.
        store.away = False
        await asyncio.sleep(SOON_S)
        await made.nimbus("n2")
        await asyncio.sleep(SOON_S)
        assert await leader(made.client) == b"n2"
        for name in ("a", "b"):
            await made.supervisor(name, 2)
        await asyncio.sleep(60)
        assert await made.assignment("words") == before


async def test_a_lost_session_ends_it() -> None:
    store = MemoryStore(LoopClock())
    backend: MemoryBackend = store.backend()
    async with open_polled(backend, LoopClock(), "store", session_s=3) as coordination:
        running = asyncio.create_task(Nimbus(coordination, LoopClock(), b"n1").run())
        await asyncio.sleep(SOON_S)
        backend.cut_off = True
        await asyncio.sleep(10)
        assert not running.done(), "it does not know yet whether another one leads"
        store.expire()
        backend.cut_off = False
        with pytest.raises(SessionLostError):
            await running


async def test_what_a_former_leader_has_planned_is_not_written() -> None:
    store = MemoryStore(LoopClock())
    stopped: MemoryBackend = store.backend()
    async with (
        store.client(session_s=1000) as client,
        open_polled(stopped, LoopClock(), "store", session_s=3) as coordination,
    ):
        await make_folders(client)
        first = Nimbus(coordination, LoopClock(), b"n1")
        running = asyncio.create_task(first.run())
        await asyncio.sleep(SOON_S)
        stopped.cut_off = True
        await asyncio.sleep(10)
        second = asyncio.create_task(Nimbus(client, LoopClock(), b"n2").run())
        await asyncio.sleep(SOON_S)
        assert await leader(client) == b"n2"
        second.cancel()
        await submit(client, "words", TopologyRecord("words:topology"))
        await client.commit([Create(path_of(SUPERVISORS, "a"), pack(SupervisorRecord("h", "a", 1)), ephemeral=True)])
        stopped.cut_off = False
        with pytest.raises(SessionLostError):
            await running
        assert await client.children(ASSIGNMENTS) == []


# -- records that cannot be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [TOPOLOGIES, ASSIGNMENTS])
async def test_what_cannot_be_read_is_left_as_it_is(folder: str, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 4)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        path = path_of(folder, "words")
        await made.client.commit([Put(path, b'{"target": 7}'), Put(folder, b"")])
        await submit(made.client, "other", TWO)
        await asyncio.sleep(60)
        node = await made.client.get(path)
        assert node is not None
        assert node.value == b'{"target": 7}'
        assert await made.client.get(path_of(ASSIGNMENTS, "words")) is not None
        assert await made.assignment("other") == AssignmentRecord(1, "a", ("a", "a")), "the others go on"
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert errors[0].startswith(f"left as it is: {path} holds no ")


@pytest.mark.parametrize("folder", [TOPOLOGIES, ASSIGNMENTS, SUPERVISORS, PARENTS])
@pytest.mark.parametrize("child", ["a%20b", "..words", "w%6Frds", "a%FF"])
async def test_a_node_whose_name_is_none_ends_no_nimbus(
    folder: str, child: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = {
        TOPOLOGIES: TWO,
        ASSIGNMENTS: AssignmentRecord(1, "a", ("a",)),
        SUPERVISORS: SupervisorRecord("host", "address", 9),
        PARENTS: ParentRecord("a", 1),
    }
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 4)
        await made.client.commit([Create(f"{folder}/{child}", pack(records[folder]))])
        await submit(made.client, "other", TWO)
        await asyncio.sleep(60)
        assert await made.assignment("other") == AssignmentRecord(1, "a", ("a", "a"))
        assert await made.client.get(f"{folder}/{child}") is not None
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"left as it is: {folder}/{child} has a name that no record has"]


async def test_a_supervisor_whose_record_cannot_be_read_is_not_missing() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        await made.supervisor("b", 2)
        await asyncio.sleep(SOON_S)
        before = await made.assignment("words")
        await made.client.commit([Put(path_of(SUPERVISORS, "a"), b"of a later version"), Put(SUPERVISORS, b"")])
        await asyncio.sleep(60)
        assert await made.assignment("words") == before


# -- orders ------------------------------------------------------------------------------------------------------------


async def test_orders_that_cannot_be_carried_out() -> None:
    async with cluster() as made:
        client = made.client
        with pytest.raises(OrderError, match="no topology 'words': there is none at all"):
            await want(client, "words", "INACTIVE")
        await submit(client, "words", TWO)
        with pytest.raises(OrderError, match="'words' is there already: kill it, or take another name"):
            await submit(client, "words", TWO)
        with pytest.raises(OrderError, match="no topology 'word': did you mean 'words'"):
            await rebalance(client, "word")
        with pytest.raises(OrderError, match="no topology 'zzz'; there are: words"):
            await want(client, "zzz", "KILLED")
        with pytest.raises(ValueError, match="1 worker or more, not 0"):
            await rebalance(client, "words", 0)
        with pytest.raises(ValueError, match="1 worker or more, not -1"):
            await submit(client, "other", TopologyRecord("a:b", workers=-1))
        await want(client, "words", "KILLED")
        await want(client, "words", "KILLED")
        with pytest.raises(OrderError, match="'words' is being killed"):
            await want(client, "words", "ACTIVE")
        with pytest.raises(OrderError, match="'words' is being killed: wait until it has ended"):
            await submit(client, "words", TWO)


async def test_a_store_without_a_nimbus() -> None:
    store = MemoryStore(LoopClock())
    async with store.client() as client:
        with pytest.raises(OrderError, match=r"is no cluster yet: start its nimbus \(aiostorm nimbus\)"):
            await submit(client, "words", TWO)


async def test_changes_at_once_all_count() -> None:
    async with cluster() as made:
        await submit(made.client, "words", TWO)
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(rebalance(made.client, "words"))
        path = path_of(TOPOLOGIES, "words")
        node = await made.client.get(path)
        assert node is not None
        assert unpack(TopologyRecord, path, node.value).generation == 11
        await made.client.commit([Delete(path)])


@pytest.mark.parametrize("restarted", [False, True])
async def test_where_a_session_tells_of_silence_that_counts_if_this_leader_has_seen_the_supervisor(
    restarted: bool,
) -> None:
    async with cluster() as made:
        made.ends_at_once = False
        await made.nimbus("nimbus-1")
        await made.supervisor("a", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        await made.supervisor("b", 2)
        await asyncio.sleep(SOON_S)
        if restarted:  # the next leader has not seen it
            await made.end("nimbus-1")
        await made.end("a")
        if restarted:
            await made.nimbus("nimbus-2")
        await asyncio.sleep(REASSIGN_S - SESSION_S + 2 * SOON_S)
        before = await made.assignment("words")
        assert before is not None
        assert before.parent == ("a" if restarted else "b")
        await asyncio.sleep(REASSIGN_S)
        after = await made.assignment("words")
        assert after is not None
        assert after.parent == "b"
        assert set(after.workers) == {"b"}
