"""A target that ends before its sender: what was on its way to it fails at once, not by timeout."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import Config, LocalCluster, bolt
from aiostorm.testing import SimClock

from .parts import Does, DoesRich, Numbers, line


@bolt(outputs="out")
def function(n: int) -> int:
    return n


def pass_on(tup: Any, collector: Any) -> None:
    collector.emit(tup.values)


def pass_and_ack(tup: Any, collector: Any) -> None:
    collector.emit(tup.values, tup)
    collector.ack(tup)


async def stuck(tup: Any, collector: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("kind", ["function", "basic", "rich"])
async def test_tuples_that_wait_for_a_target_that_ends_fail_at_once(
    local_cluster: LocalCluster, sim_clock: SimClock, kind: str, count: int
) -> None:
    bolts = {"function": function, "basic": Does(pass_on), "rich": DoesRich(pass_and_ack)}
    source = Numbers(count)
    config = Config(mailbox_capacity_tuples=2, acker_tree_max_messages=1, turn_max_tuples=1)
    running = await local_cluster.submit("t", line(source, bolt=bolts[kind], stuck=Does(stuck)), config)
    await sim_clock.advance(1)
    assert not source.failed
    [target] = [ref for ref in running._task_set.refs.values() if "stuck" in ref.path]
    target.kill()
    await sim_clock.advance(1)
    # Pending is what the target had accepted: that fails by timeout.
    assert running.metrics().pending == local_cluster.dead_letters
    assert len(source.failed) == count - local_cluster.dead_letters
    assert all(failure.reason == "failed" for failure in source.failed.values())
    await running.kill(0)
