"""A cluster of real processes on this machine: three commands, and kill -9 of everything, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiostorm.cluster.coordination import Coordination, leader, open_coordination
from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import PARENTS, TOPOLOGIES, ParentRecord, path_of, unpack
from aiostorm.runtime import LoopClock

from .spread_jobs import written
from .test_workers_real import JOBS, ROOT

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]

COUNT = 6_000
PAUSE_S = 0.02
"""After each ten numbers: the topology has work for 12 s at least, and lasts until it is let end."""


class Daemons:
    """The processes of a cluster. `home`: its folder, with a short path, as sockets need it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "aiostorm", *words, "--home", str(self.home.path)]
            self.running[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def nimbus(self) -> None:
        self.start("nimbus", "nimbus")

    def supervisor(self) -> None:
        self.start("supervisor", "supervisor", "--id", "here", "--slots", "4")

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self, name: str) -> int:
        """SIGTERM; its exit code."""
        process = self.running.pop(name)
        process.terminate()
        return process.wait(10)

    def left(self) -> set[int]:
        """The processes of topologies: those that have a log open."""
        found = set()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and any(self._is_log(link) for link in (entry / "fd").iterdir()):
                    found.add(int(entry.name))
        return found - {os.getpid()}

    def _is_log(self, link: Path) -> bool:
        with contextlib.suppress(OSError):
            return os.readlink(link).startswith(f"{self.home.path / 'logs'}/")
        return False

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    with tempfile.TemporaryDirectory(prefix="cl") as folder:
        made = Daemons(Path(folder))
        made.home.make()
        try:
            yield made
        finally:
            for process in made.running.values():
                process.kill()
                process.wait()
            for pid in made.left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def command(daemons: Daemons, *words: str, home: bool = True) -> str:
    """What a command prints. `home`: it gets the option that says which cluster is meant."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiostorm", *words, *(("--home", str(daemons.home.path)) if home else ())),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, f"{words}: {out.decode()}{err.decode()}"
    return out.decode()


async def until(what: str, condition: Any, within_s: float = 30.0) -> None:
    try:
        async with asyncio.timeout(within_s):
            while not await condition():  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"not within {within_s:g} s: {what}")


async def parent_of(store: Coordination, name: str) -> ParentRecord | None:
    path = path_of(PARENTS, name)
    node = await store.get(path)
    return None if node is None else unpack(ParentRecord, path, node.value)


def writers(folder: Path) -> set[int]:
    """The processes that have written, by the names of their files."""
    return {int(file.name.rpartition(".")[2]) for file in folder.iterdir()}


def test_three_commands_and_whatever_is_killed_the_topology_finishes(daemons: Daemons) -> None:
    asyncio.run(_whatever_is_killed(daemons))


async def _whatever_is_killed(daemons: Daemons) -> None:
    out = daemons.folder / "out"
    out.mkdir()
    daemons.nimbus()
    daemons.supervisor()
    target = (f"{JOBS}:lasting", str(out), str(COUNT), str(PAUSE_S))
    await command(daemons, "submit", *target, "--name", "numbers", "--workers", "2", "--wait", "60")
    assert "numbers" in await command(daemons, "list")
    shown = json.loads(await command(daemons, "top", "numbers", "--once", "--json", home=False))
    assert "numbers" in json.dumps(shown)
    async with open_coordination(daemons.home.store_url, LoopClock()) as store:
        await _kills(daemons, store, out)
        out.with_suffix(".ends").touch()

        async def is_out() -> bool:
            return await store.get(path_of(TOPOLOGIES, "numbers")) is None

        await until("it has finished, and is taken out", is_out, 60)
    assert set(written(out)) == set(range(COUNT))

    async def ended() -> bool:
        return not daemons.left()

    await until("all its processes have ended", ended)
    assert daemons.end("supervisor") == 0
    assert daemons.end("nimbus") == 0
    assert "Traceback" not in daemons.log("nimbus") + daemons.log("supervisor")


async def _kills(daemons: Daemons, store: Coordination, out: Path) -> None:
    async def works() -> bool:
        return len(written(out)) > 200

    await until("some work", works)
    workers = writers(out)
    assert len(workers) == 2
    assert daemons.left() > workers, "and the parent"

    # Nimbus: another one leads, and nothing that runs notices.
    daemons.kill("nimbus")

    async def none_leads() -> bool:
        return await leader(store) is None

    await until("its session ends with it", none_leads, 2)
    daemons.nimbus()

    # The supervisor: the next one adopts what runs.
    daemons.kill("supervisor")
    daemons.supervisor()

    async def adopted() -> bool:
        return "3 processes" in daemons.log("supervisor") or daemons.log("supervisor").count("is adopted") == 3

    await until("the parent and both workers are adopted", adopted)

    # The parent: the next one adopts the workers.
    before = await parent_of(store, "numbers")
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)

    async def another() -> bool:
        after = await parent_of(store, "numbers")
        return after is not None and after.pid != before.pid and after.state == "ACTIVE"

    await until("another parent", another)
    assert writers(out) == workers

    # A worker: another one takes its place.
    os.kill(min(workers), signal.SIGKILL)

    async def replaced() -> bool:
        return len(writers(out) - workers) == 1

    await until("another worker", replaced)
