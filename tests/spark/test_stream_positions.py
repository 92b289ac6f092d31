"""Positions of a stream: each row of each batch is emitted once in what counts, whatever comes again and is killed."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark import SparkSourceError
from aiostorm.spark.stream.batches import BatchState, StreamBatches
from aiostorm.spark.stream.positions import StreamPositions
from aiostorm.transport import pack_value, unpack_value

Chunk = tuple[int, int, int]  # batch, partition, chunk


def digest(chunk: Chunk) -> int:
    return hash(chunk) % 2**64


class World:
    """Spark with its checkpoint, the last durable snapshot, and a spout that can be killed at each step."""

    def __init__(self, batches: list[list[int]], data: Any) -> None:
        self.batches = batches  # of each batch the number of chunks of each partition
        self.data = data
        self.committed = 0  # batches that Spark has committed
        self.position: Any = None
        self.counts: Counter[Chunk] = Counter()  # what the durable snapshot contains
        self.chance = True

    def draw(self, *outcomes: str) -> str:
        return str(self.data.draw(st.sampled_from(outcomes))) if self.chance else outcomes[0]

    def life(self) -> None:
        """From a restore to a kill, or to the end."""
        machine, emitted = StreamBatches("s", 3, exact=True), self.counts.copy()
        machine.restore(self.position)
        while self.committed < len(self.batches):
            batch_id = self.committed
            batch = machine.begin(batch_id)
            taken = None
            steps = self.steps(machine, batch_id, emitted)
            while True:
                what = self.draw("go", "go", "go", "snapshot", "durable", "query fails", "kill")
                if what == "kill":
                    return
                if what == "query fails":
                    batch.abandon("it failed")
                    break
                if what == "snapshot" or (what == "go" and not next(steps, False)):
                    taken = unpack_value(pack_value(machine.snapshot())), emitted.copy()
                if what in ("durable", "go") and taken is not None:
                    (self.position, self.counts), taken = taken, None
                    if self.draw("sent", "kill") == "kill":
                        return
                    assert machine.positions is not None
                    machine.positions.committed()
                if batch.state is BatchState.ACKED and machine.is_returnable:
                    assert all(self.counts[chunk] == 1 for chunk in self.chunks(batch_id))
                    self.committed += 1
                    machine.count(batch)
                    break

    def chunks(self, batch_id: int) -> list[Chunk]:
        return [(batch_id, p, n) for p, count in enumerate(self.batches[batch_id]) for n in range(count)]

    def steps(self, machine: StreamBatches, batch_id: int, emitted: Counter[Chunk]) -> Any:
        """A pass over the data: a chunk is fetched, and emitted in another step."""
        batch = machine.current
        assert batch is not None
        if batch.settled:
            return
        batch.begin_pass()
        for chunk in self.chunks(batch_id):
            _, partition, number = chunk
            if batch.offer(partition, number, digest(chunk), 10):
                yield True
                emitted[chunk] += 1
                machine.emitted(partition, number)
                yield True
        batch.end_pass()
        machine.note_whole()


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=4), st.integers(0, 6), st.data())
def test_each_chunk_counts_once(batches: list[list[int]], kills: int, data: Any) -> None:
    world = World(batches, data)
    for _ in range(kills):
        world.life()
    world.chance = False
    world.life()
    assert world.committed == len(batches)
    assert world.counts == Counter(chunk for batch in range(len(batches)) for chunk in world.chunks(batch))


def begun(position: Any, batch_id: int) -> Any:
    machine = StreamBatches("clicks", 3, exact=True)
    machine.restore(position)
    return machine.begin(batch_id)


def position(batch: int, *, whole: bool) -> dict[str, Any]:
    return {"version": 1, "batch": batch, "whole": whole, "emitted": {0: 2}, "digests": {0: [7, 8]}}


def test_a_batch_that_is_whole_in_the_snapshot_is_returned_at_once() -> None:
    assert begun(position(5, whole=True), 5).state is BatchState.ACKED
    assert begun(position(5, whole=True), 6).state is BatchState.EMITTING


def test_a_batch_that_comes_again_must_be_the_same() -> None:
    batch = begun(position(5, whole=False), 5)
    batch.begin_pass()
    assert not batch.offer(0, 0, 7, 10)
    with pytest.raises(SparkSourceError, match="chunk 1 of partition 0 has other rows"):
        batch.offer(0, 1, 9, 10)


@pytest.mark.parametrize(
    ("kept", "batch_id", "says"),
    [
        (None, 3, "and the snapshot has no batches"),
        (position(5, whole=True), 7, "has batches to 5"),
        (position(5, whole=False), 6, "has a part of batch 5"),
        (position(5, whole=True), 4, "after batch 5: the checkpoint was replaced"),
    ],
)
def test_a_checkpoint_that_does_not_belong_to_the_snapshot_is_refused(kept: Any, batch_id: int, says: str) -> None:
    with pytest.raises(SparkSourceError, match=says):
        begun(kept, batch_id)


@pytest.mark.parametrize("wrong", [5, {}, {**position(1, whole=True), "version": 9}, {"version": 1, "batch": "x"}])
def test_a_position_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(SparkSourceError, match="cannot be read"):
        begun(wrong, 0)


def test_spark_commits_what_a_durable_snapshot_contains_whole() -> None:
    positions = StreamPositions("s")
    assert (positions.batch, positions.durable) == (-1, -1)
    positions.committed()
    assert positions.durable == -1
    positions.restore(position(5, whole=False))
    assert positions.durable == 4
    positions.snapshot([], {})
    positions.committed()
    assert positions.durable == 4
    positions.whole = True
    positions.snapshot([], {})
    assert positions.durable == 4
    positions.committed()
    assert positions.durable == 5
    positions.begin(6)
    positions.whole = True
    positions.begin(7)
    positions.snapshot([], {})
    positions.committed()
    assert positions.durable == 6, "a part of batch 7, and all of the one before"


def test_what_was_fetched_and_not_emitted_is_not_in_the_position() -> None:
    positions = StreamPositions("s")
    positions.restore({**position(5, whole=False), "emitted": {0: 4, 1: 2}})
    taken = positions.snapshot([(0, 3), (0, 2), (1, 7), (2, 5)], {0: array("Q", [7])})
    assert taken == {
        "version": 1,
        "batch": 5,
        "whole": False,
        "emitted": {0: 2, 1: 2, 2: 0},
        "digests": {0: [7]},
    }
    assert positions.emitted == {0: 4, 1: 2}
    positions.not_emitted([(0, 3), (0, 2), (1, 7), (2, 5)])
    assert positions.emitted == {0: 2, 1: 2, 2: 0}
