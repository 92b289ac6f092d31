"""The machine that says which chunk of which partition comes next: without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark.batch.partitions import Partitions, ReplayError, SavedProgress, merged
from aiostorm.spark.batch.runs import Runs


def digest(partition: int, number: int) -> int:
    return (partition + 1) * 1_000_003 + (number + 1) * 7_919


def read(machine: Partitions, partition: int, length: int) -> list[int]:
    """Read a partition that was taken to its end. What was to be emitted."""
    emitted = [n for n in range(length) if machine.chunk(partition, n, digest(partition, n), 10)]
    machine.end(partition)
    return emitted


def resumed(*machines: Partitions) -> SavedProgress:
    return merged(json.loads(json.dumps(machine.state())) for machine in machines)


def test_a_partition_is_finished_when_all_its_chunks_are_acked() -> None:
    machine = Partitions(2)
    assert machine.claim_next(5) == [0, 1]
    assert read(machine, 0, 3) == [0, 1, 2]
    assert (machine.acked(0, 2), machine.acked(0, 0), machine.acked(0, 0)) == (True, True, False)
    assert (machine.done, machine.rows, machine.open) == (0, 20, 1)
    machine.acked(0, 1)
    assert (machine.done, machine.is_settled) == (1, False)
    assert read(machine, 1, 0) == []
    assert (machine.done, machine.is_settled, machine.rows) == (2, True, 30)


def test_the_first_chunk_of_a_finished_partition_is_remembered() -> None:
    machine = Partitions(3)
    machine.claim_next(3)
    for partition, length in ((0, 2), (1, 0), (2, 1)):
        read(machine, partition, length)
    machine.acked(0, 0)
    machine.acked(0, 1)
    assert machine.samples == {0: digest(0, 0), 1: 0}
    assert resumed(machine).samples == machine.samples
    assert machine.state(samples=False)["samples"] == {}
    after = Partitions(3, known=resumed(machine), own=resumed(machine))
    assert after.samples == machine.samples


def test_no_partitions_is_over_at_once() -> None:
    machine = Partitions(0)
    assert machine.is_settled
    assert machine.is_read
    assert machine.claim_next(3) == []
    assert Partitions(1, index=1, tasks=2).is_settled


def test_partitions_of_unknown_number_are_found_as_they_come() -> None:
    machine = Partitions(None, index=1, tasks=2)
    assert not machine.claim(0)  # of the other task
    assert machine.claim(3)
    assert not machine.claim(3)
    assert read(machine, 3, 1) == [0]
    machine.acked(3, 0)
    assert (machine.done, machine.total) == (1, 1)
    assert (machine.is_read, machine.is_settled) == (False, False)  # there may be more
    assert not machine.claim(3)  # Spark tries a task again that is done
    assert machine.claim(5)
    machine.source_lost()
    assert machine.claim(5)
    machine.ran([0, 1, 2, 3, 5])
    assert (machine.total, machine.is_read, machine.unread()) == (3, False, [1, 5])  # 1 ran, and never came
    assert read(machine, 5, 0) == []
    assert machine.claim(1)
    assert read(machine, 1, 0) == []
    assert (machine.done, machine.is_read, machine.is_settled) == (3, True, True)
    assert not machine.claim(7)


def test_a_job_without_partitions_is_over_when_it_has_ended() -> None:
    machine = Partitions(None)
    assert not machine.is_settled
    machine.ran([])
    assert machine.is_settled
    assert machine.is_read


def test_tasks_share_the_partitions() -> None:
    shares = [Partitions(10, index=i, tasks=3).claim_next(10) for i in range(3)]
    assert shares == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_a_source_that_died_is_read_again_without_emitting_what_is_open_or_acked() -> None:
    machine = Partitions(1)
    machine.claim_next(1)
    for n in range(3):
        assert machine.chunk(0, n, digest(0, n), 10)
    machine.acked(0, 1)
    machine.source_lost()
    assert machine.claim_next(1) == [0]
    assert read(machine, 0, 5) == [3, 4]


def test_an_acked_chunk_is_compared_when_it_is_read_again() -> None:
    before = Partitions(1)
    before.claim_next(1)
    for n in range(30):
        before.chunk(0, n, digest(0, n), 10)
    for n in range(25):
        before.acked(0, n)

    def again(wrong: int, length: int = 30) -> ReplayError:
        machine = Partitions(1, known=resumed(before))
        machine.claim_next(1)
        try:
            for n in range(length):
                machine.chunk(0, n, digest(0, n) ^ (n == wrong), 10)
            machine.end(0)
        except ReplayError as error:
            return error
        raise AssertionError("nothing was found")

    assert (again(27).chunk, again(24).chunk, again(17).chunk) == (27, 24, 17)  # open, acked lately
    assert (again(16).chunk, again(3).chunk, again(3).chunks) == (None, None, 25)  # acked long ago: known only as a sum
    assert (again(-1, length=28).chunk, again(-1, length=29).chunk) == (28, 29)  # fewer than there were
    assert str(again(27)) == "partition 0 differs from before: chunk 27 has changed"
    assert str(again(3)) == "partition 0 differs from before: one of its first 25 chunks has changed"


def test_the_sum_of_the_digests_has_64_bits() -> None:
    machine = Partitions(1)
    machine.claim_next(1)
    for number, digest in enumerate((2**63, 2**64 - 1, 5)):
        machine.chunk(0, number, digest, 10)
    sums = []
    for number in range(3):
        machine.acked(0, number)
        sums.append(machine.state()["begun"]["0"]["sum"])
    assert sums == ["8000000000000000", "7fffffffffffffff", "8000000000000004"]


def test_a_chunk_that_is_given_up_ends_this_run_and_comes_again_in_the_next() -> None:
    machine = Partitions(1)
    machine.claim_next(1)
    read(machine, 0, 3)
    machine.acked(0, 0)
    machine.given_up(0, 1)
    machine.acked(0, 2)
    assert (machine.is_settled, machine.done) == (True, 0)
    after = Partitions(1, known=resumed(machine))
    assert after.claim_next(1) == [0]
    assert read(after, 0, 3) == [1]
    after.acked(0, 1)
    assert after.is_settled


def test_known_partitions_are_compared_before_new_ones_are_claimed() -> None:
    before = Partitions(4)
    before.claim_next(4)
    assert before.chunk(2, 0, digest(2, 0), 10)
    machine = Partitions(4, known=resumed(before))
    assert machine.claim_next(9) == [2]
    assert machine.claim_next(9) == []
    machine.chunk(2, 0, digest(2, 0), 10)
    assert machine.claim_next(9) == [0, 1, 3]


def test_a_partition_is_claimed_from_when_it_is_given_until_its_end_or_the_source_is_lost() -> None:
    machine = Partitions(3)
    assert not any(machine.is_claimed(p) for p in range(3))
    assert machine.claim_next(2) == [0, 1]
    assert machine.claim(2)
    assert [machine.is_claimed(p) for p in range(4)] == [True, True, True, False]
    read(machine, 1, 2)
    assert [machine.is_claimed(p) for p in range(3)] == [True, False, True]
    machine.source_lost()
    assert not any(machine.is_claimed(p) for p in range(3))


def test_chunks_come_in_order_and_of_partitions_that_were_taken() -> None:
    machine = Partitions(2)
    with pytest.raises(ValueError, match="not taken"):
        machine.chunk(0, 0, 1, 1)
    machine.claim_next(1)
    with pytest.raises(ValueError, match="0 is next"):
        machine.chunk(0, 1, 1, 1)


def test_rows_of_what_others_finished_are_counted_once() -> None:
    first, second = Partitions(3, index=0, tasks=2), Partitions(3, index=1, tasks=2)
    for machine, partitions in ((first, (0,)), (second, (1,))):
        machine.claim_next(9)
        for partition in partitions:
            for n in read(machine, partition, 2):
                machine.acked(partition, n)
    known, own = resumed(first, second), resumed(first)
    assert (str(known.finished), known.rows) == ("0-1", 40)
    alone = Partitions(3, known=known, own=own)  # one task now, in the place of the first
    assert (alone.done, alone.claim_next(9)) == (2, [2])
    for n in read(alone, 2, 1):
        alone.acked(2, n)
    again = resumed(alone, second)
    assert (str(again.finished), again.rows) == ("0-2", 50)


@pytest.mark.parametrize(
    "state", [{}, {"finished": "x", "rows": 0, "begun": {}}, {"finished": "", "rows": -1, "begun": {}}]
)
def test_a_state_that_is_none_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError)):
        merged([state])


lengths = st.lists(st.integers(0, 6), max_size=7)


@given(lengths, st.integers(1, 4), st.integers(0, 3), st.data())
def test_every_chunk_is_delivered_in_spite_of_crashes(lengths: list[int], tasks: int, crashes: int, data: Any) -> None:
    """Random order of reading, acking, failing sources; crashes at any point, each time with other tasks."""
    total = len(lengths)
    delivered: dict[tuple[int, int], int] = {}
    finished: set[int] = set()
    states: dict[int, str] = {}
    for run in range(crashes + 1):
        kept = [json.loads(state) for state in states.values()]
        known = merged(kept)
        assert finished <= {p for p in range(total) if p in known.finished}
        machines = [
            Partitions(
                total, index=i, tasks=tasks, known=known, own=merged([json.loads(states[i])] if i in states else [])
            )
            for i in range(tasks)
        ]
        steps = data.draw(st.integers(0, 60)) if run < crashes else 10**9
        for i, machine in enumerate(machines):
            _drive(machine, lengths, delivered, finished, data, steps)
            if run < crashes:
                assert machine.open <= sum(lengths)
                if data.draw(st.booleans()):  # else it crashed before it was kept
                    states[i] = json.dumps(machine.state())
            else:
                assert machine.is_settled
                assert machine.is_read
                assert machine.done == machine.total
                states[i] = json.dumps(machine.state())
        finished = {p for p in range(total) if p in merged(json.loads(s) for s in states.values()).finished}
        tasks = data.draw(st.integers(1, 4)) if run < crashes else tasks
    assert set(delivered) == {(p, n) for p, length in enumerate(lengths) for n in range(length)}
    known = merged(json.loads(s) for s in states.values())
    assert len(known.finished) == total


def _drive(
    machine: Partitions,
    lengths: list[int],
    delivered: dict[tuple[int, int], int],
    finished: set[int],
    data: Any,
    steps: int,
) -> None:
    taken: dict[int, int] = {}
    open_: list[tuple[int, int]] = []
    while steps > 0 and not machine.is_settled:
        steps -= 1
        assert {p for p in range(len(lengths)) if machine.is_claimed(p)} == set(taken)
        could = (
            ["read"] * bool(taken) + ["take"] * bool(machine.waiting) + ["ack"] * bool(open_) + ["lose"] * bool(taken)
        )
        what = data.draw(st.sampled_from(could)) if steps < 1000 else could[0]
        if what == "take":
            for partition in machine.claim_next(2):
                assert partition not in finished
                taken[partition] = 0
        elif what == "read":
            partition = data.draw(st.sampled_from(sorted(taken))) if steps < 1000 else min(taken)
            number = taken[partition]
            if number == lengths[partition]:
                machine.end(partition)
                del taken[partition]
            else:
                taken[partition] += 1
                if machine.chunk(partition, number, digest(partition, number), 10):
                    assert (partition, number) not in open_
                    open_.append((partition, number))
        elif what == "ack":
            partition, number = open_.pop(data.draw(st.integers(0, len(open_) - 1)) if steps < 1000 else 0)
            assert machine.acked(partition, number)
            delivered[partition, number] = delivered.get((partition, number), 0) + 1
        else:
            machine.source_lost()
            taken.clear()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5))))
def test_runs_are_a_set(pairs: list[tuple[int, int]]) -> None:
    runs, wanted = Runs(), set()
    for begin, length in pairs:
        runs.add_range(begin, begin + length)
        wanted.update(range(begin, begin + length))
    assert [n for n in range(50) if n in runs] == sorted(wanted)
    assert len(runs) == len(wanted)
    assert runs.prefix == next(n for n in range(60) if n not in wanted)
    assert runs.end == max(wanted, default=-1) + 1
    assert str(Runs.parsed(str(runs))) == str(runs)
    assert all(end < begin for (_, end), (begin, _) in zip(runs.pairs(), runs.pairs()[1:], strict=False))


@pytest.mark.parametrize("text", [None, 3, "a", "5-3", "1,,2", "-1", "1-", "9" * 40])
def test_runs_that_are_none_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"runs|from"):
        Runs.parsed(text)
