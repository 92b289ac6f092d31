"""One task of a shuffle hangs or is slow: a few cells of bad_task.py (all of them: python -m tests.flow.bad_task)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from aiostorm import Config, LocalCluster, Spout, Topology, TopologyBuilder

from .bad_task import LEAST, Cell, Trouble, Work, endless, main, ratio
from .test_held_rows import Source

LEAST_OF_FEW = 0.7
"""Where few messages are open, a tree more or less at the right moment is much; without a bad task as well."""


@pytest.mark.parametrize(
    "name", ["hung-4-1024-1024-1", "slow-4-1024-1024-1", "hung-10-16-16-4", "slow-4-4096-16-4", "slow-10-16-1024-1"]
)
async def test_the_other_tasks_run_at_their_full_rate(sim_clock: object, name: str) -> None:
    assert await ratio(Cell.named(name), 7, seconds=1) >= LEAST


@pytest.mark.parametrize("pending", [10, 30, 100, 1000])
@pytest.mark.parametrize(
    "name",
    [
        "hung-4-1024-256-1",
        "crawling-4-1024-256-1",
        pytest.param("hung-10-1024-256-1", marks=pytest.mark.slow),
        pytest.param("crawling-10-64-16-1", marks=pytest.mark.slow),
    ],
)
async def test_the_other_tasks_continue_with_few_pending_messages(sim_clock: object, name: str, pending: int) -> None:
    """They did nothing until the message timeout: their trees waited for the rows of the bad one."""
    assert await ratio(Cell.named(name), 3, seconds=3, pending=pending) >= LEAST_OF_FEW


@pytest.mark.parametrize("spouts", [1, pytest.param(4, marks=pytest.mark.slow)])
async def test_only_messages_with_a_row_in_the_task_that_hangs_time_out(sim_clock: object, spouts: int) -> None:
    pending, source, trouble = 100, Source(20_000), Trouble("hung", 1, 0.0)
    builder = TopologyBuilder()
    builder.set_spout("source", source, spouts)
    builder.set_bolt("work", Work(trouble), 4).shuffle_grouping("source")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology(), Config(max_spout_pending=pending // spouts))
        await asyncio.sleep(65)  # the work, and the message timeout
        await running.kill(0)
    failed = [message for message, failure in source.outcomes if failure]
    assert len(source.outcomes) == 20_000 * spouts
    assert 0 < len(failed) <= 0.5 * pending
    assert len(source.outcomes) - len(failed) == trouble.done


async def test_the_other_tasks_continue_after_two_periods_of_the_topology_master(sim_clock: object) -> None:
    assert await ratio(Cell.named("slow-4-1024-1024-1"), 8, seconds=14) >= LEAST


async def test_with_fields_grouping_all_tasks_wait_for_the_hanging_one(sim_clock: object) -> None:
    """Rows of a key have nowhere else to go: so it would be seen if a shuffle waited as well."""

    def by_fields(cell: Cell, trouble: Trouble) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("endless", endless, cell.spouts)
        builder.set_bolt("work", Work(trouble), cell.tasks).fields_grouping("endless", "n")
        return builder.create_topology()

    assert await ratio(Cell.named("hung-4-16-16-1"), 0, 1, by_fields) < 0.1


@pytest.mark.parametrize("bad", ["hung", "slow"])
async def test_columns_by_partial_key_wait_for_both_candidates(sim_clock: object, bad: str) -> None:
    """Each row has two candidates: while one of them is full, the other has all of them."""
    pa: Any = pytest.importorskip("pyarrow")

    class Endless(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.next = collector, 0

        def next_tuple(self) -> None:
            numbers = pa.array(range(self.next, self.next + 64))
            self.collector.emit_arrow(pa.record_batch({"n": numbers}), message_id=self.next)
            self.next += 64

    def by_partial_key(cell: Cell, trouble: Trouble) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("endless", Endless, cell.spouts)
        builder.set_bolt("work", Work(trouble), cell.tasks).partial_key_grouping("endless", "n")
        return builder.create_topology()

    for seed in range(5):
        assert await ratio(Cell.named(f"{bad}-4-1024-1024-1"), seed, 1, by_partial_key) >= LEAST


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--seconds", "1", "--jobs", "1", "--cells", "hung-4-16-1*-1"]) == 0
    output, progress = capsys.readouterr()
    assert output.splitlines() == [
        "| one of | mailbox | 1 spout, turn 16 | 1 spout, turn 1,024 |",
        "|---|---|---|---|",
        "| 4 hung | 16 | 1.000 / 1.000 | 1.000 / 1.000 |",
        "",
        "2 cells, 2 seeds: 0 of 4 below 0.95, the least 1.000",
    ]
    assert progress.splitlines()[-1].startswith("  2/2 shares, ")


def test_a_process_of_it_says_the_ratios_of_its_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--share", "3:5", "--seconds", "1", "--cells", "slow-4-16-16-1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 2
    assert min(found) >= LEAST


@pytest.mark.parametrize("options", ["--seeds 0", "--jobs 0", "--seconds 0", "--cells hang-*"])
def test_arguments_that_select_no_run_are_refused(options: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(options.split())
    assert ended.value.code == 2
