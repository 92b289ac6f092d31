"""Detached processes: they outlive their starter, are adopted, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiostorm.runtime import ProcessIdentity, SpawnError
from aiostorm.runtime.processes import DetachedPool, DetachedProcess
from aiostorm.runtime.processes.detached import MAX_LINE_BYTES

from .test_spawner import PATIENCE_S, POSIX

pytestmark = [POSIX, pytest.mark.sockets]

SLOT = """
    import json, os, sys, time
    line = sys.stdin.buffer.readline()
    if not line:
        raise SystemExit(0)
    task = json.loads(line)
    fd = os.open(task["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(fd, 1)
    os.close(fd)
    what, *rest = task["arguments"]
    if what == "exit":
        raise SystemExit(int(rest[0]))
    if what == "look":
        seen = {"fds": sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []}
        seen |= {"session": os.getsid(0) == os.getpid(), "watch": "AIOSTORM_PARENT_WATCH" in os.environ}
        print(json.dumps(seen))
        raise SystemExit(0)
    print("works", *rest, flush=True)
    time.sleep(60)
"""

STARTER = """
    import asyncio, pathlib, sys
    from aiostorm.runtime.processes import DetachedPool

    async def main(folder):
        async with DetachedPool("detached_slot", (), folder / "slot.log") as pool:
            waiting = await pool.take()
            idle = await pool.take()
            await waiting.assign(folder / "task.log", ["wait", "here"])
            print(waiting.identity, idle.identity, flush=True)
            await asyncio.sleep(60)

    asyncio.run(main(pathlib.Path(sys.argv[1])))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module of the processes, which they find."""
    (tmp_path / "detached_slot.py").write_text(textwrap.dedent(SLOT))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("AIOSTORM_PARENT_WATCH", "0 1 0")
    return tmp_path


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[DetachedPool]:
    async with asyncio.timeout(PATIENCE_S), DetachedPool("detached_slot", (), folder / "out" / "slot.log") as pool:
        yield pool


async def started(pool: DetachedPool, folder: Path, *arguments: str) -> DetachedProcess:
    return await (await pool.take()).assign(folder / "task.log", arguments)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - of another process, which says nothing
        await asyncio.sleep(0.02)


async def until_written(path: Path, text: str) -> None:
    await until(lambda: path.exists() and text in path.read_text())


async def test_it_runs_its_task_and_tells_its_code(folder: Path) -> None:
    async with opened(folder) as pool:
        process = await started(pool, folder, "exit", "7")
        assert await process.wait() == 7
        assert not process.runs
        process.terminate()
        process.kill()
        working = await started(pool, folder, "wait")
        await until_written(folder / "task.log", "works")
        working.terminate()
        assert await working.wait() == -signal.SIGTERM
        killed = await started(pool, folder, "wait")
        killed.kill()
        assert await killed.wait() == -signal.SIGKILL
    assert stat.S_IMODE((folder / "out" / "slot.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "out").stat().st_mode) == 0o700


async def test_it_has_nothing_of_its_starter(folder: Path) -> None:
    read_fd, write_fd = os.pipe()
    os.set_inheritable(write_fd, True)
    try:
        async with opened(folder) as pool:
            process = await started(pool, folder, "look")
            assert await process.wait() == 0
    finally:
        os.close(read_fd)
        os.close(write_fd)
    seen = json.loads((folder / "task.log").read_text())
    assert seen["session"]
    assert not seen["watch"]
    assert len(seen["fds"]) <= 4, "0, 1, 2, and the folder that it lists"


async def test_there_is_a_spare_again_soon(folder: Path) -> None:
    async with opened(folder) as pool:
        for _ in range(2):
            await until(lambda: pool.ready)
            process = await started(pool, folder, "exit", "0")
            assert not pool.ready
            assert await process.wait() == 0
        await until(lambda: pool.ready)
        [spare] = pool.ready
    assert not spare.runs, "it ends with its pool"


async def test_there_may_be_several_ready(folder: Path) -> None:
    opening = DetachedPool("detached_slot", (), folder / "slot.log", ready=2)
    async with asyncio.timeout(PATIENCE_S), opening as pool:
        await until(lambda: len(pool.ready) == 2)
        identities = {spare.identity for spare in pool.ready}
        taken = [await pool.take() for _ in range(3)]
        assert {process.identity for process in taken[:2]} == identities
        assert taken[2].identity not in identities
        assert not pool.ready
        for process in taken:
            await process.end()
        await until(lambda: len(pool.ready) == 2)
        left = pool.ready
    assert not any(spare.runs for spare in left)


async def test_without_a_task_it_ends(folder: Path) -> None:
    async with opened(folder) as pool:
        waiting = await pool.take()
        waiting.abandon()
        waiting.abandon()
        await until(lambda: not waiting.runs)
        with pytest.raises(SpawnError, match="has ended"):
            await waiting.assign(folder / "task.log", ["exit", "0"])


@pytest.mark.parametrize("arguments", [["a\0b"], ["x" * MAX_LINE_BYTES]])
async def test_what_no_process_could_be_given_is_refused(folder: Path, arguments: list[str]) -> None:
    async with opened(folder) as pool:
        waiting = await pool.take()
        with pytest.raises(SpawnError, match=r"NUL|may have"):
            await waiting.assign(folder / "task.log", arguments)
        await until(lambda: not waiting.runs)


async def test_it_outlives_a_killed_starter_and_is_adopted(folder: Path) -> None:
    script = folder / "starter.py"
    script.write_text(textwrap.dedent(STARTER))
    starter = subprocess.Popen([sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    assert starter.stdout is not None
    line = await asyncio.to_thread(starter.stdout.readline)
    working, idle = map(ProcessIdentity.parse, line.split())
    starter.kill()
    starter.communicate()
    async with opened(folder) as pool:
        await until(lambda: idle.has_ended)
        assert pool.adopt(idle) is None, "without a task it has ended with its starter"
        process = pool.adopt(working)
        assert process is not None
        await until_written(folder / "task.log", "works here")
        assert process.runs
    async with opened(folder) as pool:  # and again, by a second one
        process = pool.adopt(working)
        assert process is not None
        process.terminate()
        assert await process.wait() is None, "the code is known to its parent only"
    assert working.has_ended


async def test_another_process_with_the_same_id_is_not_adopted(folder: Path) -> None:
    own = ProcessIdentity.own()
    async with opened(folder) as pool:
        assert pool.adopt(ProcessIdentity(own.space, own.pid, own.started + 1)) is None or not own.started
        assert pool.adopt(ProcessIdentity(own.space + 1, own.pid, own.started)) is None


async def test_a_system_without_pidfd(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pidfd(pid: int) -> int:
        raise OSError("not here")

    monkeypatch.setattr(os, "pidfd_open", no_pidfd, raising=False)
    async with opened(folder) as pool:
        process = await started(pool, folder, "exit", "3")
        assert await process.wait() == 3
        working = await started(pool, folder, "wait")
        adopted = pool.adopt(working.identity)
        assert adopted is not None
        working.terminate()
        assert await working.wait() == -signal.SIGTERM
        assert await adopted.wait() is None


@pytest.mark.slow
async def test_nothing_accumulates(folder: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/dev/fd"))

    async with opened(folder) as pool:
        await (await started(pool, folder, "exit", "0")).wait()
        await until(lambda: pool.ready)
        before = descriptors()
        identities = []
        for _ in range(30):
            process = await started(pool, folder, "exit", "0")
            identities.append(process.identity)
            assert await process.wait() == 0
        await until(lambda: pool.ready)
        assert descriptors() == before
        assert not pool._processes - {spare._process for spare in pool.ready}
        for identity in identities:
            with pytest.raises(ChildProcessError):
                os.waitpid(identity.pid, os.WNOHANG)  # noqa: ASYNC222 - none is left as a zombie
