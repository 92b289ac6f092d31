"""The daemon over the store in memory, in virtual time, with processes that are asyncio tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest

from aiostorm.cluster.coordination import Coordination, Create, Delete, MemoryStore, Put, UnavailableError
from aiostorm.cluster.coordination.memory import MemoryBackend
from aiostorm.cluster.coordination.polled import open_polled
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ParentRecord,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    pack,
    path_of,
    unpack,
)
from aiostorm.cluster.supervisor import DuplicateSupervisorError, Isolation, Key, SlotNote, Supervisor, SupervisorSeams
from aiostorm.cluster.supervisor.reading import Reader, Reading
from aiostorm.cluster.supervisor.supervisor import OLD_S, REGISTER_S
from aiostorm.runtime import LoopClock, ProcessIdentity

from .fakes import FakeLaunching, FakeNotes, FakeProcesses, Machine

SOON_S = 1.0
WORDS = TopologyRecord("words:topology", blob="b" * 64, workers=2)
ON_A = AssignmentRecord(1, "a", ("a", "a"))
PARENT = Key("words", "parent")
WORKER_1 = Key("words", "worker-1")
WORKER_2 = Key("words", "worker-2")
ALL = {PARENT, WORKER_1, WORKER_2}


class World:
    """A store, a client that writes what nimbus and parents would, one machine, and its supervisor `a`."""

    def __init__(self, store: MemoryStore, client: Coordination) -> None:
        self.store = store
        self.client = client
        self.machine = Machine()
        self.notes = FakeNotes()
        self.launching = FakeLaunching()
        self.more: tuple[Isolation, ...] = ()
        self.backends: list[MemoryBackend] = []

    def open(self) -> AbstractAsyncContextManager[Coordination]:
        self.backends.append(self.store.backend())
        return open_polled(self.backends[-1], LoopClock(), "the store")

    def supervisor(self, name: str = "a") -> Supervisor:
        seams = SupervisorSeams(self.open, FakeProcesses(self.machine), self.notes, self.launching, *self.more)
        record = SupervisorRecord("host", "host", 4, process=f"1-{id(seams)}-2")
        return Supervisor(name, record, seams, LoopClock())

    @asynccontextmanager
    async def supervised(self) -> AsyncIterator[Supervisor]:
        """A supervisor, which ends in order."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            supervisor = self.supervisor()
            group.create_task(supervisor.run(stop))
            await asyncio.sleep(SOON_S)
            yield supervisor
            stop.set()

    @asynccontextmanager
    async def killed_after(self) -> AsyncIterator[None]:
        """A supervisor, which ends at once (its session lasts on)."""
        running = asyncio.create_task(self.supervisor().run(asyncio.Event()))
        await asyncio.sleep(SOON_S)
        yield
        self.backends[-1].cut_off = True
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    async def put(self, folder: str, name: str, record: object) -> None:
        path = path_of(folder, name)
        there = await self.client.get(path) is not None
        write = Put(path, pack(record)) if there else Create(path, pack(record), ephemeral=folder == PARENTS)
        await self.client.commit([write, Put(folder, b"")])

    async def delete(self, folder: str, name: str) -> None:
        await self.client.commit([Delete(path_of(folder, name)), Put(folder, b"")])

    async def submit(self, assignment: AssignmentRecord = ON_A) -> None:
        await self.put(TOPOLOGIES, "words", WORDS)
        await self.put(ASSIGNMENTS, "words", assignment)
        await asyncio.sleep(SOON_S)

    def code_of(self, key: Key) -> int:
        return self.machine.running()[key]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    store = MemoryStore(LoopClock())
    async with store.client(session_s=3600) as client:
        await make_folders(client)
        yield World(store, client)


async def test_it_registers_and_runs_what_is_assigned_until_it_is_not() -> None:
    async with world() as made:
        async with made.supervised():
            node = await made.client.get(path_of(SUPERVISORS, "a"))
            assert node is not None
            assert unpack(SupervisorRecord, "/", node.value).slots == 4
            assert not made.machine.running()
            await made.submit()
            assert made.machine.running().keys() == ALL
            assert made.notes.notes.keys() == ALL
            await made.delete(ASSIGNMENTS, "words")
            await asyncio.sleep(SOON_S)
            assert not made.machine.running()
            assert not made.notes.notes
        assert await made.client.get(path_of(SUPERVISORS, "a")) is None


async def test_others_run_elsewhere() -> None:
    async with world() as made, made.supervised():
        await made.submit(AssignmentRecord(1, "b", ("b", "a")))
        assert made.machine.running().keys() == {WORKER_2}
        await made.put(ASSIGNMENTS, "other", AssignmentRecord(1, "b", ("b",)))
        await asyncio.sleep(SOON_S)
        assert made.machine.running().keys() == {WORKER_2}


async def test_it_is_not_woken_by_what_is_written_of_topologies_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = Reader.read

    async def counted(self: Reader, coordination: Coordination, running: Collection[str]) -> Reading:
        reads.append(1)
        return await read(self, coordination, running)

    monkeypatch.setattr(Reader, "read", counted)
    async with world() as made, made.supervised():
        await made.submit()
        await made.put(ASSIGNMENTS, "other", AssignmentRecord(1, "b", ("b",)))
        await asyncio.sleep(SOON_S)
        before = len(reads)
        await made.put(TOPOLOGIES, "other", WORDS)
        for number in range(3):
            await made.put(PARENTS, "other", ParentRecord("b", 1, pid=number))
        await asyncio.sleep(SOON_S)
        assert len(reads) == before
        await made.put(PARENTS, "words", ParentRecord("a", 1, pid=4711))
        await asyncio.sleep(SOON_S)
        assert len(reads) == before + 1
        await made.delete(ASSIGNMENTS, "words")
        await made.put(TOPOLOGIES, "words", WORDS)
        await asyncio.sleep(SOON_S)
        after = len(reads)
        await made.put(PARENTS, "words", ParentRecord("b", 2, pid=4712))
        await asyncio.sleep(SOON_S)
        assert len(reads) == after, "it is another one's by now"


async def test_what_ends_is_started_again_unless_it_is_to_be_killed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with world() as made, made.supervised():
        await made.submit()
        before = made.code_of(WORKER_1)
        made.machine.end(WORKER_1, 69)
        await asyncio.sleep(SOON_S)
        assert made.code_of(WORKER_1) != before
        assert f"worker-1 of words (pid {before}) has ended: exit code 69" in caplog.messages
        await made.put(TOPOLOGIES, "words", replace(WORDS, wanted="KILLED"))
        await asyncio.sleep(SOON_S)
        assert made.machine.running().keys() == ALL, "the parent ends them"
        for key in (WORKER_1, WORKER_2, PARENT):
            made.machine.end(key, 0)
        await asyncio.sleep(100)
        assert not made.machine.running()


async def test_one_that_cannot_stay_alive_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as made, made.supervised():
        made.machine.broken = "no memory"
        await made.submit()
        await asyncio.sleep(60)
        said = [message for message in caplog.messages if "does not stay alive" in message]
        assert len(said) == 3
        assert "no memory" in said[0]
        assert not made.notes.notes
        made.machine.broken = ""
        await asyncio.sleep(6)
        assert made.machine.running().keys() == ALL


async def test_a_rebalance_waits_for_the_old_parent() -> None:
    async with world() as made, made.supervised():
        await made.submit()
        before = made.machine.running()
        made.machine.obeys = lambda key: 30.0 if key == PARENT else 0.1
        await made.put(PARENTS, "words", ParentRecord("a", 1, pid=before[PARENT]))
        await made.put(ASSIGNMENTS, "words", AssignmentRecord(2, "a", ("a",)))
        await asyncio.sleep(25)
        assert made.machine.running() == before, "it drains, and its workers serve it"
        await made.delete(PARENTS, "words")
        await asyncio.sleep(6)
        after = made.machine.running()
        assert after.keys() == {PARENT, WORKER_1}
        assert not set(after.values()) & set(before.values())
        assert made.machine.processes[before[PARENT]].signals == ["TERM"]


async def test_one_that_does_not_end_is_killed() -> None:
    async with world() as made, made.supervised():
        await made.submit()
        pids = made.machine.running().values()
        made.machine.obeys = lambda key: None
        await made.delete(ASSIGNMENTS, "words")
        await asyncio.sleep(9)
        assert made.machine.running().keys() == ALL
        await asyncio.sleep(2)
        assert not made.machine.running()
        assert all(made.machine.processes[pid].signals == ["TERM", "KILL"] for pid in pids)


async def test_an_abandoned_worker_is_killed_and_started_again() -> None:
    async with world() as made, made.supervised():
        await made.submit()
        pid = made.code_of(WORKER_1)
        record = ParentRecord("a", 1, pid=made.code_of(PARENT), abandoned=(f"worker-1@{pid}", "worker-2@1"))
        others = made.code_of(WORKER_2)
        await made.put(PARENTS, "words", record)
        await asyncio.sleep(SOON_S)
        assert made.machine.processes[pid].signals == ["KILL"]
        assert made.code_of(WORKER_1) != pid
        assert made.code_of(WORKER_2) == others


async def test_a_killed_supervisor_s_processes_live_on_and_are_adopted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with world() as made:
        async with made.killed_after():
            await made.submit()
            before = made.machine.running()
        await asyncio.sleep(20)
        made.machine.end(WORKER_2, 1)  # while there is no supervisor
        async with made.supervised():
            after = made.machine.running()
            assert after.keys() == ALL
            assert {after[PARENT], after[WORKER_1]} == {before[PARENT], before[WORKER_1]}
            assert after[WORKER_2] != before[WORKER_2]
            await made.delete(ASSIGNMENTS, "words")
            await asyncio.sleep(SOON_S)
            assert not made.machine.running()


async def test_what_is_not_assigned_any_more_ends_after_a_restart() -> None:
    async with world() as made:
        async with made.supervised():
            await made.submit()
        assert made.machine.running().keys() == ALL, "they live on"
        await made.delete(ASSIGNMENTS, "words")
        async with made.supervised():
            assert not made.machine.running()


async def test_killed_at_any_moment_of_a_start_nothing_runs_unnoted() -> None:
    for moment in range(1, 60):
        async with world() as made:
            running = asyncio.create_task(made.supervisor().run(asyncio.Event()))
            await made.submit()
            for key in (PARENT, WORKER_1, WORKER_2):
                made.machine.end(key, 1)
            for _ in range(moment):
                await asyncio.sleep(0.0005)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            noted = {note.identity.pid for note in made.notes.notes.values()}
            assert set(made.machine.running().values()) <= noted
            waiting = [each for each in made.machine.processes.values() if each.key is None and each.runs]
            assert not waiting
            async with made.supervised():
                assert made.machine.running().keys() == ALL


async def test_a_second_supervisor_of_the_name_is_refused() -> None:
    async with world() as made, made.supervised():
        with pytest.raises(DuplicateSupervisorError, match="another supervisor a runs on host"):
            async with asyncio.timeout(REGISTER_S + 5):
                await made.supervisor().run(asyncio.Event())


async def test_it_waits_for_the_session_of_one_that_was_killed() -> None:
    async with world() as made:
        async with made.killed_after():
            pass
        assert await made.client.get(path_of(SUPERVISORS, "a")) is not None
        async with made.supervised():
            await made.submit()
            await asyncio.sleep(10)
            assert made.machine.running().keys() == ALL


async def test_nothing_changes_while_the_store_is_away_but_what_ends_is_started() -> None:
    async with world() as made, made.supervised():
        await made.submit()
        before = made.machine.running()
        made.store.away = True
        await asyncio.sleep(600)
        assert made.machine.running() == before
        made.machine.end(WORKER_1, 1)
        await asyncio.sleep(SOON_S)
        assert made.machine.running().keys() == ALL
        made.store.away = False
        await asyncio.sleep(3)
        assert await made.client.get(path_of(SUPERVISORS, "a")) is not None


async def test_a_lost_session_is_followed_by_another_and_processes_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as made, made.supervised():
        await made.submit()
        before = made.machine.running()
        made.backends[-1].cut_off = True
        await asyncio.sleep(20)
        assert await made.client.get(path_of(SUPERVISORS, "a")) is None
        made.backends[-1].cut_off = False
        await asyncio.sleep(5)
        assert await made.client.get(path_of(SUPERVISORS, "a")) is not None
        assert len(made.backends) == 2
        assert made.machine.running() == before
        assert "its session was lost: registers anew; its processes go on" in caplog.messages
        await made.delete(ASSIGNMENTS, "words")
        await asyncio.sleep(SOON_S)
        assert not made.machine.running()


async def test_it_waits_for_a_store_that_is_not_there_yet() -> None:
    async with world() as made:
        made.notes.notes[WORKER_1] = SlotNote(WORKER_1, 1, ProcessIdentity(1, 1, 1))
        made.store.away = True
        async with made.supervised():
            await asyncio.sleep(30)
            assert not made.notes.notes, "that process has ended"
            made.store.away = False
            await asyncio.sleep(3)
            await made.submit()
            assert made.machine.running().keys() == ALL


async def test_a_record_that_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as made, made.supervised():
        await made.submit()
        before = made.machine.running()
        await made.client.commit([Put(path_of(ASSIGNMENTS, "words"), b"{"), Put(ASSIGNMENTS, b"")])
        await asyncio.sleep(60)
        assert made.machine.running() == before
        assert sum("words is left as it is" in message for message in caplog.messages) == 1
        made.machine.end(WORKER_1, 1)
        await asyncio.sleep(60)
        assert made.machine.running().keys() >= {PARENT, WORKER_2}


async def test_a_parent_that_ended_in_order_rests_also_after_a_restart() -> None:
    async with world() as made:
        async with made.supervised():
            await made.submit()
            made.machine.end(PARENT, 0)
            await asyncio.sleep(SOON_S)
        assert made.notes.notes[PARENT].rest is not None
        async with made.supervised():
            await asyncio.sleep(60)
            assert made.machine.running().keys() == {WORKER_1, WORKER_2}
            await made.delete(ASSIGNMENTS, "words")
            await asyncio.sleep(20)
        assert not made.notes.notes


async def test_a_worker_with_more_memory_than_was_declared_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as made, made.supervised():
        await made.put(TOPOLOGIES, "words", replace(WORDS, worker_memory_bytes=200 << 20))
        await made.put(ASSIGNMENTS, "words", ON_A)
        await asyncio.sleep(SOON_S)
        before = made.machine.running()
        made.machine.processes[before[PARENT]].memory_bytes = 900 << 20
        made.machine.processes[before[WORKER_1]].memory_bytes = 200 << 20
        made.machine.processes[before[WORKER_2]].memory_bytes = None
        await asyncio.sleep(5)
        assert made.machine.running() == before, "a parent is not limited"
        made.machine.processes[before[WORKER_1]].memory_bytes = 210 << 20
        await asyncio.sleep(3)
        after = made.machine.running()
        assert after.keys() == ALL, "it was started again"
        assert {key for key in ALL if after[key] != before[key]} == {WORKER_1}
        why = "it has 210 MiB of memory, and may have 200 MiB (aiostorm submit --worker-memory)"
        assert made.launching.noted == [(WORKER_1, f"killed by its supervisor: {why}")]
        assert f"worker-1 of words (pid {before[WORKER_1]}) is killed: {why}" in caplog.messages


async def test_a_start_that_is_not_wanted_any_more_is_withdrawn() -> None:
    async with world() as made, made.supervised():
        made.launching.fetch_s = 60.0
        await made.submit()
        await made.delete(ASSIGNMENTS, "words")
        await asyncio.sleep(120)
        assert made.machine.started == []
        assert not any(process.runs for process in made.machine.processes.values())


async def test_code_and_logs_are_looked_after() -> None:
    async with world() as made, made.supervised():
        await made.submit()
        await asyncio.sleep(OLD_S)
        assert made.launching.used[-1] == {"b" * 64}
        assert made.launching.kept[-1] == {"words"}
        assert set(made.launching.limited[-1]) == ALL
        made.store.away = True
        before = len(made.launching.used)
        await asyncio.sleep(3 * OLD_S)
        assert len(made.launching.used) == before, "what is used is not known then"


async def test_an_unexpected_error_ends_it() -> None:
    async with world() as made:

        class Defect(FakeLaunching):
            async def limit_logs(self, running: object) -> None:
                raise ZeroDivisionError

        made.launching = Defect()
        with pytest.raises(ExceptionGroup) as raised:
            await made.supervisor().run(asyncio.Event())
        assert raised.group_contains(ZeroDivisionError)


async def test_an_unavailable_store_is_no_error_of_a_group() -> None:
    async with world() as made:
        made.store.away = True
        with pytest.raises(UnavailableError):
            async with made.open():
                pass
