"""A real supervisor with a real store: its processes outlive it, are adopted, and end when nothing is assigned."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiostorm.cluster.coordination import Coordination, Create, Delete, Put, open_coordination
from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    TopologyRecord,
    make_folders,
    pack,
    path_of,
)
from aiostorm.cluster.supervisor import Key, SlotFiles
from aiostorm.runtime import LoopClock, ProcessIdentity

PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.name != "posix", reason="detached processes need POSIX"),
]


@asynccontextmanager
async def supervisor(home: Home, *, killed: bool = False) -> AsyncIterator[None]:
    """A process with a supervisor; SIGKILL or SIGTERM ends it."""
    command = [sys.executable, "-m", "aiostorm", "supervisor", "--home", str(home.path), "--id", "a"]
    with (home.path.parent / "supervisor.log").open("a") as output:
        process = await asyncio.to_thread(subprocess.Popen, command, stderr=output, stdout=output, text=True)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == (-signal.SIGKILL if killed else 0)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.05)


async def running(home: Home) -> dict[Key, ProcessIdentity]:
    """The processes that are noted and run."""
    files = SlotFiles(home.slots("a"))
    notes = await files.read() if home.slots("a").is_dir() else []
    return {note.key: note.identity for note in notes if not note.identity.has_ended}


async def assign(client: Coordination) -> None:
    await make_folders(client)
    topology = TopologyRecord("nowhere:topology", workers=2)
    await client.commit([Create(path_of(TOPOLOGIES, "words"), pack(topology)), Put(TOPOLOGIES, b"")])
    # The parent is on a supervisor that is not there: the workers wait for it, or end and are started again.
    assignment = AssignmentRecord(1, "b", ("a", "a"))
    await client.commit([Create(path_of(ASSIGNMENTS, "words"), pack(assignment)), Put(ASSIGNMENTS, b"")])


async def test_processes_outlive_their_supervisor_and_are_adopted(short_path: Path) -> None:
    home = Home(short_path / "home")
    home.make()
    keys = {Key("words", "worker-1"), Key("words", "worker-2")}
    async with open_coordination(home.store_url, LoopClock()) as client:
        await assign(client)

        async def all_run() -> bool:
            log = (short_path / "supervisor.log").read_text()  # a process is noted before it has its task
            started = all(f"{key} (pid {one.pid}) is started" in log for key, one in (await running(home)).items())
            return started and (await running(home)).keys() == keys

        async with supervisor(home, killed=True):
            await until(all_run)
        before = await running(home)
        assert before.keys() == keys, "they live on: a worker waits for its parent for a minute"
        assert all(home.log(*key).exists() for key in keys)

        async def registered() -> bool:
            return await client.get(path_of(SUPERVISORS, "a")) is not None

        async def replaced() -> bool:
            return not await registered()

        await until(replaced)
        async with supervisor(home):
            await until(registered)
            assert await running(home) == before, "the same processes"
            log = (short_path / "supervisor.log").read_text()
            for key, identity in before.items():
                assert f"{key} (pid {identity.pid}) is adopted" in log
            await client.commit([Delete(path_of(ASSIGNMENTS, "words")), Put(ASSIGNMENTS, b"")])
            began_s = time.monotonic()

            async def none_runs() -> bool:
                return not await running(home)

            await until(none_runs)
            assert time.monotonic() - began_s < 12, "they are asked, and killed after 10 s"
        assert "0 processes live on" in (short_path / "supervisor.log").read_text()
