"""Tests of the detector that continues: it is ended like a process that is killed, and finds the same attacks."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from detector import summary
from follow import topology
from sample_log import sample

from aiostorm import LocalCluster


async def follow(log: Path, folder: Path, killed_after_s: float | None = None) -> Any:
    """Read what the log contains now, then stop in order, or be killed. Returns what was found so far."""
    async with LocalCluster() as cluster:
        made = topology(str(log), str(folder / "attacks.db"))
        running = await cluster.submit("job", made, {"state_dir": str(folder / "state")})
        await running.wait_idle()
        if killed_after_s is not None:
            await asyncio.sleep(killed_after_s)  # a snapshot is taken every second
            await running.kill(0)
            return None
        return summary(await running.results())


def attacks(folder: Path) -> list[tuple[str, int]]:
    """What is in the database."""
    with sqlite3.connect(folder / "attacks.db") as connection:
        return sorted(connection.execute("SELECT * FROM attacks"))


@pytest.mark.parametrize("parts", [2, 5, 20])
async def test_a_detector_that_was_killed_finds_the_same(tmp_path: Path, parts: int) -> None:
    log, lines = tmp_path / "auth.log", "".join(f"{line}\n" for line in sample())
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    log.write_text(lines)
    expected = await follow(log, whole)

    for part in range(parts):
        log.write_text(lines[: (part + 1) * len(lines) // parts])  # it may end in the middle of a line
        await follow(log, killed, killed_after_s=part % 3)
    assert await follow(log, killed) == expected
    assert attacks(killed) == attacks(whole)
    assert [address for address, _ in attacks(whole)] == ["192.0.2.44", "203.0.113.7", "203.0.113.99"]
