"""Generator spouts that give chunks: whatever a chunk is made of, each item is a message of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiostorm import Config, LocalCluster, bolt, spout
from aiostorm.testing import Recorder

from .parts import Notes, line


@pytest.mark.parametrize("tree", [1, 3, 256])
@pytest.mark.parametrize("limit", [None, 1, 5])
async def test_rows_may_be_lists_and_tuples_by_turns(local_cluster: LocalCluster, tree: int, limit: int | None) -> None:
    @spout(outputs=["a", "b"])
    def pairs() -> Iterator[Any]:
        for n in range(200):
            yield [n, -n] if n % 7 in (0, 3) else (n, -n)

    sink = Recorder(fail_on=lambda tup: False)
    running = await local_cluster.submit(
        "t", line(pairs, sink=sink), Config(acker_tree_max_messages=tree, max_spout_pending=limit)
    )
    await running.wait_finished()
    assert sink.values == [(n, -n) for n in range(200)]
    metrics = running.metrics()
    assert metrics["spout"].acked == 200
    assert metrics["spout"].failed == 0


@pytest.mark.parametrize("tree", [1, 3, 256])
async def test_each_message_of_a_mixed_tree_fails_as_itself(local_cluster: LocalCluster, tree: int) -> None:
    @spout(outputs=["a", "b"])
    def pairs() -> Iterator[Any]:
        for n in range(50):
            yield [n, -n] if n % 4 == 0 else (n, -n)

    seen = Notes()

    @bolt
    def fails(a: int, b: int) -> None:
        seen.append(a)
        if a % 5 == 0 and seen.count(a) <= a % 3:
            raise LookupError(a)

    running = await local_cluster.submit("t", line(pairs, fails=fails), Config(acker_tree_max_messages=tree))
    await running.wait_finished()
    assert sorted(seen) == sorted(n for n in range(50) for _ in range(1 + (n % 3 if n % 5 == 0 else 0)))
    assert running.metrics()["spout"].acked == 50
