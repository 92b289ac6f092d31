"""The position of a batch spout: what was emitted, whatever is repeated, and of which data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import Config, TopologyBuilder, TopologyError
from aiostorm.spark import SparkBatchSpout, SparkSourceError
from aiostorm.spark.batch.partitions import Partitions, merged
from aiostorm.spark.batch.position import BatchPosition, difference
from aiostorm.transport import pack_value, unpack_value
from tests.spark.test_partitions import digest

HEADER = {"source": "a DataFrame", "data": "2 files", "columns": ["id int64"], "partitions": 3}


def restored(position: Any, header: Any = None) -> Any:
    return BatchPosition(HEADER if header is None else header, "job").restored(position)


def test_a_position_of_other_data_is_refused_by_name() -> None:
    position = unpack_value(pack_value(BatchPosition(HEADER, "job").of(Partitions(3).state())))
    assert len(restored(position).finished) == 0
    with pytest.raises(SparkSourceError, match='its data was "2 files", and is "3 files" now; give each source'):
        restored(position, {**HEADER, "data": "3 files"})
    with pytest.raises(SparkSourceError, match="its partitions was 3, and is 4 now"):
        restored(position, {**HEADER, "partitions": 4})
    for wrong in ({}, 5, {**position, "version": 9}, {**position, "state": {"finished": "x"}}):
        with pytest.raises(SparkSourceError, match="cannot be read"):
            restored(wrong)


def test_what_is_in_a_position() -> None:
    state = Partitions(3).state()
    assert BatchPosition(HEADER, "job").of(state) == {"version": 1, "header": HEADER, "state": state}


def test_the_first_difference_is_named_and_long_ones_are_cut() -> None:
    assert difference(HEADER, HEADER) == ""
    assert difference({}, HEADER) == 'source was null, and is "a DataFrame" now'
    assert difference({"a": "x" * 298}, {"a": 1}) == f'a was "{"x" * 298}", and is 1 now'
    assert difference({"a": "x" * 299}, {"a": 1}) == f'a was "{"x" * 299} …, and is 1 now'


def test_progress_and_lossy_windows_are_settled_by_snapshots() -> None:
    def built(guarantee: Any, **given: Any) -> None:
        builder = TopologyBuilder()
        builder.set_spout("s", SparkBatchSpout(sql="select 1 a", fields="a", **given))
        builder.create_topology(config=Config(guarantee=guarantee))

    built("exactly-once")
    built("at-least-once", progress="/p")
    with pytest.raises(TopologyError, match=r"progress= cannot be together with exactly-once.*leave out progress="):
        built("exactly-once", progress="/p")


@given(st.lists(st.integers(0, 6), max_size=6), st.integers(1, 3), st.integers(0, 4), st.data())
def test_each_chunk_is_emitted_once_in_what_counts(lengths: list[int], tasks: int, kills: int, data: Any) -> None:
    """Any order of reading, sources that are lost, and kills: then all after the last snapshot is forgotten."""
    for index in range(tasks):
        position, counts = None, Counter[tuple[int, int]]()
        for life in range(kills + 1):
            known = merged([]) if position is None else restored(position)
            machine = Partitions(len(lengths), index=index, tasks=tasks, known=known, own=known)
            emitted = counts.copy()
            steps = data.draw(st.integers(0, 40)) if life < kills else 10**9
            for _ in _life(machine, lengths, emitted, steps, data):
                if data.draw(st.booleans()):
                    packed = pack_value(BatchPosition(HEADER, "job").of(machine.state()))
                    position, counts = unpack_value(packed), emitted.copy()
        assert machine.is_settled
        assert emitted == Counter((p, n) for p in range(index, len(lengths), tasks) for n in range(lengths[p]))


def _life(machine: Partitions, lengths: list[int], emitted: Counter[tuple[int, int]], steps: int, data: Any) -> Any:
    """Do `steps`; yields when a snapshot could be taken."""
    taken: dict[int, int] = {}
    ready: list[tuple[int, int]] = []
    while steps > 0 and not machine.is_settled:
        steps -= 1
        kinds = [("take", machine.waiting), ("read", taken), ("emit", ready), ("lose", taken and steps < 1000)]
        what = data.draw(st.sampled_from([kind for kind, could in kinds if could]))
        if what == "take":
            taken |= dict.fromkeys(machine.claim_next(2), 0)
        elif what == "lose":
            machine.source_lost()
            taken.clear()
        elif what == "emit":
            chunk = ready.pop(0)
            emitted[chunk] += 1
            assert machine.acked(*chunk)
        else:
            partition = data.draw(st.sampled_from(sorted(taken)))
            number = taken[partition]
            if number == lengths[partition]:
                machine.end(partition)
                del taken[partition]
            else:
                taken[partition] += 1
                if machine.chunk(partition, number, digest(partition, number), 10):
                    ready.append((partition, number))
        yield
