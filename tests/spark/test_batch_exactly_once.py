"""A batch that runs exactly once: killed and started again, its chunks are in the results once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aiostorm import Config, LocalCluster, Topology, TopologyBuilder, TopologyFailedError
from aiostorm.spark import SparkBatchSpout
from tests.cluster.snapshots.exact import Committed
from tests.spark.test_batch_spout import eventually, ids, off_loop

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

ROWS, PARTITIONS = 6_000, 12


class Slow(Committed):
    """Commits the rows of a source, and takes its time."""

    async def execute(self, tup: Any, collector: Any) -> None:
        if tup[0] % 10 == 0:
            await asyncio.sleep(0.003)
        self.kept.append((tup[0], 1))


def copying(spout: SparkBatchSpout, folder: Path, tasks: int = 1) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout, tasks)
    builder.set_bolt("out", Slow(str(folder / "out"))).shuffle_grouping("numbers")
    config = Config(guarantee="exactly-once", state_dir=str(folder / "state"), snapshot_interval_ms=50)
    return builder.create_topology(config=config)


async def run(topology: Topology, folder: Path, kill_at: int | None = None) -> Any:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology)
        if kill_at is not None:
            await eventually(lambda: len(written(folder)) >= kill_at)
            await running.kill(0)
            return None
        await running.wait_finished(120)
        return running.metrics()["numbers"].progress


def written(folder: Path) -> list[int]:
    files = [file for file in (folder / "out").iterdir() if not file.suffix]
    return sorted(row[0] for file in files for row in json.loads(file.read_text()))


@pytest.mark.parametrize(("tasks", "way"), [(1, "fetch"), (2, "fetch"), (1, "push")])
async def test_a_killed_batch_continues_after_its_last_snapshot(
    spark: Any, tmp_path: Path, tasks: int, way: Any
) -> None:
    (tmp_path / "out").mkdir()

    async def job(shift: int = 0, **given: Any) -> Topology:
        frame = await ids(spark, ROWS, PARTITIONS)
        frame = await off_loop(lambda: frame.selectExpr(f"id + {shift} as id", "text"))
        settings: dict[str, Any] = {"chunk_rows": 100, "way": way, "max_pending": 4, **given}
        return copying(SparkBatchSpout(frame, **settings), tmp_path, tasks)

    found = []
    for rows in (1, 1_000, 2_500):
        await run(await job(), tmp_path, rows)
        found.append(len(written(tmp_path)))
        assert len(set(written(tmp_path))) == found[-1]
    for other, says in (({"shift": 1}, "its plan was"), ({"chunk_rows": 50}, "chunk_rows was 100, and is 50 now")):
        with pytest.raises(TopologyFailedError, match=says):
            await run(await job(**other), tmp_path)
    progress = await run(await job(), tmp_path)
    assert written(tmp_path) == list(range(ROWS))
    assert 0 < found[-1] < ROWS
    assert (progress.done, progress.rows) == (PARTITIONS, ROWS)
    assert progress.before < PARTITIONS
    done = await run(await job(), tmp_path)
    assert (done.before, done.rows) == (PARTITIONS, ROWS)
    assert "in the restored snapshot; begin with an empty state_dir to run again" in done.note
    assert written(tmp_path) == list(range(ROWS))
