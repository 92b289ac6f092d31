"""The cost of measuring: with the switch off nothing is added to histograms, and all else is as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiostorm import LocalCluster, TopologyBuilder, bolt, spout
from benchmarks.measuring import MEASURING, Switch, without_entries


@bolt
def end(number: int) -> None:
    pass


async def counted(*, on: bool) -> tuple[int, int, int, int]:
    """Rows executed, messages acked, and how many times of each were counted."""

    @spout(outputs="number", tracked=True)
    def numbers() -> Iterator[int]:
        yield from range(500)

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("end", end).shuffle_grouping("numbers")
    switch = Switch()
    switch.use(on=on)
    try:
        async with LocalCluster() as cluster:
            running = await cluster.submit("measured", builder.create_topology())
            await running.wait_finished()
            found = running.metrics()
    finally:
        switch.use(on=True)
    rows, messages = found["end"], found["numbers"]
    return rows.executed, messages.acked, rows.execute_latency.count, messages.complete_latency.count


async def test_with_the_switch_off_no_time_is_counted() -> None:
    before = [getattr(owner, name) for owner, name in MEASURING]
    assert await counted(on=False) == (500, 500, 0, 0)
    assert await counted(on=True) == (500, 500, 500, 500)
    assert [getattr(owner, name) for owner, name in MEASURING] == before


def test_a_function_that_measures_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="counted adds to none of ages, executions, timings"):
        without_entries(counted)
