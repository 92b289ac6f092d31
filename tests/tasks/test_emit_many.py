"""emit_rows and emit_column: what a batch has made, handed over at once, and anchored like the emits it stands for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import BasicBolt, Config, Fields, LocalCluster
from aiostorm.testing import Recorder
from aiostorm.topology import RepeatedAnchor

from .parts import Does, Notes, Numbers, line, rows


class Makes(BasicBolt):
    """Runs a function of (batch, collector) for each batch."""

    def __init__(self, make: Any, outputs: Any = "out") -> None:
        self.make = make
        self.outputs = outputs  # type: ignore[misc]

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        self.make(tuples, collector)


def fails_on(*values: Any) -> Does:
    def act(tup: Any, collector: Any) -> None:
        if tup[0] in values:
            raise ValueError(f"{tup[0]} is bad")

    return Does(act)


@pytest.mark.parametrize("tree", [1, 3, 256])
async def test_a_column_is_anchored_to_its_whole_batch(local_cluster: LocalCluster, tree: int) -> None:
    batches = Notes()

    def make(tuples: Any, collector: Any) -> None:
        batches.append(tuples.column("n"))
        collector.emit_column(n * 10 for n in tuples.column("n"))

    source = Numbers(40, each_call=8)
    topology = line(source, makes=Makes(make), sink=fails_on(130))
    running = await local_cluster.submit("t", topology, Config(acker_tree_max_messages=tree, turn_max_tuples=8))
    await running.wait_finished()
    assert len(batches) > 1
    lost = next(batch for batch in batches if 13 in batch)
    assert sorted(source.failed) == sorted(lost)
    assert sorted(source.acked) == [n for n in range(40) if n not in lost]
    assert "130 is bad" in source.failed[13].error


@pytest.mark.parametrize("tree", [1, 3, 256])
async def test_anchors_name_the_tuple_that_rows_come_from(local_cluster: LocalCluster, tree: int) -> None:
    def make(tuples: Any, collector: Any) -> None:
        for tup in tuples:
            collector.emit_rows([(tup["n"], 0), [tup["n"], 1]], anchors=tup)
        collector.emit_rows([(-1, 0)], anchors=None)

    source = Numbers(20)
    topology = line(source, makes=Makes(make, Fields("n", "part")), sink=fails_on(7, -1))
    running = await local_cluster.submit("t", topology, Config(acker_tree_max_messages=tree))
    await running.wait_finished()
    assert sorted(source.failed) == [7]
    assert sorted(source.acked) == [n for n in range(20) if n != 7]


async def test_rows_arrive_as_they_are(local_cluster: LocalCluster) -> None:
    def make(tuples: Any, collector: Any) -> None:
        collector.emit_rows(tuples.rows)
        collector.emit_rows([])
        collector.emit_column([])
        collector.emit((-1,))
        collector.emit_column(("text", None))

    source, sink = Numbers(5, each_call=5), Recorder()
    running = await local_cluster.submit("t", line(source, makes=Makes(make), sink=sink))
    await running.wait_finished()
    assert sink.values == [*rows(range(5)), (-1,), ("text",), (None,)]
    assert sorted(source.acked) == list(range(5))


@pytest.mark.parametrize(
    ("emit", "text"),
    [
        (lambda c: c.emit_column([1]), "has 2 fields.*use emit_rows"),
        (lambda c: c.emit_column([1], "nowhere"), "does not declare"),
        (lambda c: c.emit_rows([(1, 2), (3,)]), r"emits 1 values on stream 'default', which has 2 fields.*\(3,\)"),
        (lambda c: c.emit_rows([(1, 2), "ab"]), "a tuple or list of values is needed"),
    ],
)
async def test_a_wrong_emit_fails_the_batch(local_cluster: LocalCluster, emit: Any, text: str) -> None:
    source, sink = Numbers(3, each_call=3), Recorder()
    makes = Makes(lambda tuples, collector: emit(collector), Fields("a", "b"))
    running = await local_cluster.submit("t", line(source, makes=makes, sink=sink))
    await running.wait_finished()
    assert sorted(source.failed) == [0, 1, 2]
    assert not sink.values
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(source.failed[0].error)


@given(st.integers(0, 20), st.data())
def test_a_repeated_anchor_is_a_list_of_equal_anchors(count: int, data: st.DataObject) -> None:
    anchor, plain = RepeatedAnchor("m", count), ["m"] * count
    assert (len(anchor), list(anchor)) == (count, plain)
    part = data.draw(st.slices(count))
    assert list(anchor[part]) == plain[part]
    at = data.draw(st.integers(-25, 25))
    if -count <= at < count:
        assert anchor[at] == "m"
    else:
        with pytest.raises(IndexError):
            anchor[at]
