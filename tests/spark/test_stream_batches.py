"""Batches of a stream against a plain model: when Spark may commit, what is emitted, what must not differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiostorm.spark import SparkSourceError
from aiostorm.spark.stream.batches import MAX_FAILURES, BatchState, MicroBatch, StreamBatches

ATTEMPTS = 3

Data = dict[int, list[int]]  # partition → the digest of each chunk

DATA = st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3), max_size=3)


def emit_all(batch: MicroBatch, data: Data) -> list[tuple[int, int]]:
    batch.begin_pass()
    emitted = [
        (partition, chunk)
        for partition, digests in data.items()
        for chunk, digest in enumerate(digests)
        if batch.offer(partition, chunk, digest, 10)
    ]
    batch.end_pass()
    return emitted


class StreamMachine(RuleBasedStateMachine):
    """Spark brings batches, again where they were not done; chunks come, are acked, fail; fetching breaks; we crash."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = StreamBatches("s", ATTEMPTS)
        self.data: Data = {}
        self.batch: MicroBatch | None = None
        self.next_id = 0
        self.todo: list[tuple[int, int]] = []  # chunks that this pass still brings
        self.emitted: set[tuple[int, int]] = set()
        self.acked: set[tuple[int, int]] = set()
        self.failed = False
        self.fetched = False
        self.committed: list[int] = []

    @property
    def held(self) -> MicroBatch:
        assert self.batch is not None
        return self.batch

    def waits(self) -> bool:
        return self.batch is not None and not self.batch.settled

    def begin_pass(self) -> None:
        self.held.begin_pass()
        self.todo = [(partition, chunk) for partition, digests in self.data.items() for chunk in range(len(digests))]

    @precondition(lambda self: not self.waits())
    @rule(data=DATA)
    def brings(self, data: Data) -> None:
        if self.batch is None or self.batch.state is BatchState.ACKED:
            self.data = data
            self.next_id += self.batch is not None
        self.batch = self.batches.begin(self.next_id)
        self.emitted, self.acked, self.failed, self.fetched = set(), set(), False, False
        self.begin_pass()

    @precondition(lambda self: self.waits() and not self.fetched and self.todo)
    @rule()
    def a_chunk_comes(self) -> None:
        partition, chunk = self.todo.pop(0)
        emits = self.held.offer(partition, chunk, self.data[partition][chunk], 10)
        assert emits == ((partition, chunk) not in self.emitted)
        self.emitted.add((partition, chunk))

    @precondition(lambda self: self.waits() and not self.fetched and not self.todo)
    @rule()
    def all_has_come(self) -> None:
        self.held.end_pass()
        self.fetched = True

    @precondition(lambda self: self.waits() and not self.fetched)
    @rule()
    def fetching_breaks(self) -> None:
        if self.held.pass_failed("socket closed"):
            self.begin_pass()
        else:
            assert self.held.attempt == ATTEMPTS
            self.failed = True

    @precondition(lambda self: self.waits() and self.emitted)
    @rule(data=st.data(), ack=st.booleans())
    def verdict(self, data: Any, ack: bool) -> None:
        chunk = data.draw(st.sampled_from(sorted(self.emitted)))
        if ack:
            self.held.acked(*chunk)
            self.acked.add(chunk)
        else:
            self.held.failed(*chunk, "ValueError")
            self.failed = self.failed or chunk not in self.acked

    @precondition(lambda self: self.waits())
    @rule()
    def the_query_dies(self) -> None:
        self.held.abandon("JVM died")
        self.failed = True

    @precondition(lambda self: self.batch is not None and self.batch.settled)
    @rule()
    def what_comes_late_changes_nothing(self) -> None:
        state = self.held.state
        self.held.acked(0, 0)
        self.held.failed(0, 0, "late")
        self.held.abandon("late")
        assert self.held.state is state
        assert self.batches.of(self.held.batch_id) is None

    @invariant()
    def committed_when_all_is_acked(self) -> None:
        if self.batch is None:
            return
        complete = self.fetched and self.acked >= self.emitted
        assert (self.batch.state is BatchState.ACKED) == (complete and not self.failed)
        assert self.batch.settled == (complete or self.failed)
        if self.waits():
            assert self.batch.open_chunks == len(self.emitted - self.acked)
            assert self.batches.of(self.batch.batch_id) is self.batch


TestStream = StreamMachine.TestCase


@given(DATA.filter(bool), st.data())
def test_a_batch_that_comes_again_and_differs_is_an_error(data: Data, draw: Any) -> None:
    batches = StreamBatches("clicks", ATTEMPTS)
    emit_all(batches.begin(4), data)
    partition = draw.draw(st.sampled_from(sorted(data)))
    other = {at: list(digests) for at, digests in data.items()}
    how = draw.draw(st.sampled_from(["changed", "shorter", "longer", "missing", "new"]))
    if how == "changed":
        other[partition][0] ^= 1
    elif how == "shorter":
        other[partition].pop()
    elif how == "longer":
        other[partition].append(7)
    elif how == "missing":
        del other[partition]
    else:
        other[9] = [7]
    with pytest.raises(SparkSourceError, match=r"batch 4 of 'clicks' came again and differs.*sort"):
        emit_all(batches.begin(4), other)


@given(DATA, st.integers(0, 9))
def test_the_chunks_of_every_attempt_are_remembered(data: Data, seen: int) -> None:
    batches = StreamBatches("s", ATTEMPTS)
    chunks = [(partition, chunk) for partition, digests in data.items() for chunk in range(len(digests))]
    first = batches.begin(0)
    first.begin_pass()
    for partition, chunk in chunks[:seen]:
        first.offer(partition, chunk, data[partition][chunk], 1)
    second = batches.begin(0)  # and this one breaks before its first chunk
    assert first.state is BatchState.ABANDONED
    second.begin_pass()
    second.abandon("JVM died")
    third = batches.begin(0)
    assert emit_all(third, data) == chunks
    for partition, chunk in chunks:
        third.acked(partition, chunk)
    assert third.state is BatchState.ACKED


def test_another_batch_may_have_other_data() -> None:
    batches = StreamBatches("s", ATTEMPTS)
    assert emit_all(batches.begin(0), {0: [1]}) == [(0, 0)]
    batches.begin(0)
    assert emit_all(batches.begin(1), {0: [2, 3]}) == [(0, 0), (0, 1)]


def test_an_empty_batch_is_done_at_once() -> None:
    batch = StreamBatches("s", ATTEMPTS).begin(0)
    emit_all(batch, {})
    assert batch.state is BatchState.ACKED


def test_ids_that_go_back_are_of_another_checkpoint() -> None:
    batches = StreamBatches("clicks", ATTEMPTS)
    batches.begin(17)
    batches.begin(17)
    batches.begin(19)
    with pytest.raises(SparkSourceError, match="batch 3 of 'clicks' after batch 19: the checkpoint was replaced"):
        batches.begin(3)


def test_chunks_come_in_order() -> None:
    batch = StreamBatches("s", ATTEMPTS).begin(0)
    batch.begin_pass()
    with pytest.raises(ValueError, match="chunk 1 of partition 0 came, 0 is next"):
        batch.offer(0, 1, 0, 1)


def test_a_query_that_fails_without_ever_doing_a_batch_is_given_up() -> None:
    batches = StreamBatches("s", ATTEMPTS)
    assert [batches.query_failed() for _ in range(MAX_FAILURES + 1)] == [False] * MAX_FAILURES + [True]
    batches.count(batches.begin(0))
    assert batches.query_failed() is False


def test_settings() -> None:
    with pytest.raises(ValueError, match="max_attempts is 1 or more"):
        StreamBatches("s", 0)
