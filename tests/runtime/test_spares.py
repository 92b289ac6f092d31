"""Spares: one that waits takes the place of the next, at once; nothing of it is left."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from aiostorm.runtime import PythonSpawner, SpareSpawner

from .test_spawner import PATIENCE_S, POSIX, Nursery

SPARE = """
    import json, sys
    from aiostorm.runtime import die_with_parent

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


async def _spare_there(spares: SpareSpawner) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not spares.has_spare:  # noqa: ASYNC110 - a process starts, and nobody is told
            await asyncio.sleep(0.02)


@POSIX
@pytest.mark.sockets
async def test_a_spare_takes_the_place_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("aiostorm.runtime.spares.AFTER_S", 0.05)
    nursery = Nursery(tmp_path)
    processes = nursery.spawner(SPARE)
    assert isinstance(processes, PythonSpawner)
    async with SpareSpawner(processes, ("spare",)) as spares:
        assert not spares.has_spare, "nobody has been started: there may never be a need"
        first = await spares.spawn("first", ["a", "b"], stdin=b"secret")
        await _spare_there(spares)
        second = await spares.spawn("second", ["c", "d"], stdin=b"other")
        assert not spares.has_spare
        third = await spares.spawn("third", ["e"], stdin=b"none is left")
        assert [await child.wait() for child in (first, second, third)] == [0, 0, 0]
        assert {(line.name, line.text) for line in nursery.lines if line.stream == "stdout"} == {
            ("first", "new a b"),
            ("first", "secret"),
            ("second", "spare c d"),
            ("second", "other"),
            ("third", "new e"),
            ("third", "none is left"),
        }
        await _spare_there(spares)
        dead = spares._spare
        assert dead is not None
        dead.kill()
        await dead.wait()
        fourth = await spares.spawn("fourth", ["f"], stdin=b"x")
        assert await fourth.wait() == 0, "one that has ended is none"
        await _spare_there(spares)
        last = spares._spare
    assert last is not None
    assert await last.wait() == -signal.SIGKILL
