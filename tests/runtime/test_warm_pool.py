"""Warm pool: a spare is used for the next process at once; no process is left behind."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from aiostorm.runtime.processes import PythonSpawner, WarmPool

from .test_spawner import PATIENCE_S, POSIX, Nursery

SPARE = """
    import json, sys
    from aiostorm.runtime.processes import die_with_parent

    die_with_parent()
    if sys.argv[1:] == ["spare"]:
        line = sys.stdin.buffer.readline()
        if not line:
            raise SystemExit(7)
        print("spare", *json.loads(line))
    else:
        print("new", *sys.argv[1:])
    print(sys.stdin.buffer.read().decode())
"""


async def _spare_there(warm_pool: WarmPool) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not warm_pool.has_spare:  # noqa: ASYNC110 - a process starts without a notification
            await asyncio.sleep(0.02)


@POSIX
@pytest.mark.sockets
async def test_a_spare_takes_the_place_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("aiostorm.runtime.processes.warm_pool.AFTER_S", 0.05)
    nursery = Nursery(tmp_path)
    processes = nursery.spawner(SPARE)
    assert isinstance(processes, PythonSpawner)
    async with WarmPool(processes, ("spare",)) as warm_pool:
        assert not warm_pool.has_spare, "no process has been started: there may never be a need"
        first = await warm_pool.spawn("first", ["a", "b"], stdin=b"secret")
        await _spare_there(warm_pool)
        second = await warm_pool.spawn("second", ["c", "d"], stdin=b"other")
        assert not warm_pool.has_spare
        third = await warm_pool.spawn("third", ["e"], stdin=b"none is left")
        assert [await child.wait() for child in (first, second, third)] == [0, 0, 0]
        assert {(line.name, line.text) for line in nursery.lines if line.stream == "stdout"} == {
            ("first", "new a b"),
            ("first", "secret"),
            ("second", "spare c d"),
            ("second", "other"),
            ("third", "new e"),
            ("third", "none is left"),
        }
        await _spare_there(warm_pool)
        dead = warm_pool._spare
        assert dead is not None
        dead.kill()
        await dead.wait()
        fourth = await warm_pool.spawn("fourth", ["f"], stdin=b"x")
        assert await fourth.wait() == 0, "one that has ended is none"
        await _spare_there(warm_pool)
        last = warm_pool._spare
    assert last is not None
    assert await last.wait() == -signal.SIGKILL
