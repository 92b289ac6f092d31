"""Which partitions are claimed and compared first, what is given up, and saved states that are none."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.spark.batch.partitions import Partitions, merged

from .test_partitions import digest, read, resumed


@pytest.mark.parametrize("rows", [True, 1.0, "1", None, -1])
def test_a_number_of_rows_that_is_none_is_refused(rows: Any) -> None:
    begun = {"acked": "0", "sum": "5", "rows": 1, "recent": {}, "open": {}}
    state: dict[str, Any] = {"finished": "", "rows": 1, "begun": {"0": begun}, "samples": {}}
    assert merged([state]).rows == 1
    with pytest.raises(ValueError, match="no count"):
        merged([state | {"rows": rows}])
    with pytest.raises(ValueError, match="no count"):
        merged([state | {"begun": {"0": begun | {"rows": rows}}}])


def begun_with(acked: int) -> dict[str, Any]:
    """A saved state of partition 0 with so many acked chunks."""
    machine = Partitions(1)
    machine.claim_next(1)
    for n in range(acked):
        machine.chunk(0, n, digest(0, n), 10)
        machine.acked(0, n)
    return machine.state()


def test_of_two_states_of_a_partition_the_longer_one_counts() -> None:
    shorter, longer = begun_with(1), begun_with(3)
    for states in ([shorter, longer], [longer, shorter]):
        assert len(merged(states).begun[0].acked) == 3


@pytest.mark.parametrize(("total", "index", "tasks"), [(-1, 0, 1), (1, -1, 1), (1, 1, 1), (3, 2, 2), (None, 2, 2)])
def test_a_task_that_cannot_be_is_refused(total: int | None, index: int, tasks: int) -> None:
    with pytest.raises(ValueError, match=f"task {index} of {tasks}"):
        Partitions(total, index=index, tasks=tasks)


def test_what_a_task_had_begun_stays_in_its_state_though_it_is_of_another_task_now() -> None:
    before = Partitions(3)
    before.claim_next(3)
    for partition in range(3):
        before.chunk(partition, 0, digest(partition, 0), 10)
    after = Partitions(3, index=0, tasks=2, known=resumed(before), own=resumed(before))
    assert list(after.state()["begun"]) == ["0", "1", "2"]
    assert after.claim_next(9) == [0, 2]
    for partition in (0, 2):
        for n in read(after, partition, 1):
            after.acked(partition, n)
    assert list(after.state()["begun"]) == ["1"]


def test_a_partition_that_was_claimed_by_its_number_is_not_given_again() -> None:
    machine = Partitions(3)
    assert machine.claim(1)
    assert (machine.waiting, machine.claim_next(9)) == (2, [0, 2])


def test_only_acked_chunks_of_an_unfinished_partition_are_acked() -> None:
    machine = Partitions(2)
    machine.claim_next(2)
    read(machine, 0, 2)
    machine.acked(0, 1)
    assert [machine.is_acked(*chunk) for chunk in ((0, 0), (0, 1), (1, 0), (7, 0))] == [False, True, False, False]


def test_what_is_compared_first_is_unread_first() -> None:
    before = Partitions(4)
    before.claim_next(4)
    before.chunk(2, 0, digest(2, 0), 10)
    machine = Partitions(4, known=resumed(before))
    assert machine.unread() == [2, 0, 1, 3]
    machine.claim_next(1)
    machine.chunk(2, 0, digest(2, 0), 10)
    assert machine.unread() == [0, 1, 2, 3]


def test_after_a_loss_partitions_with_emitted_chunks_are_compared_first() -> None:
    machine = Partitions(5)
    machine.claim_next(4)
    read(machine, 0, 1)  # to its end
    machine.chunk(1, 0, digest(1, 0), 10)
    machine.given_up(1, 0)  # there is nothing to compare
    machine.chunk(2, 0, digest(2, 0), 10)  # open
    machine.chunk(3, 0, digest(3, 0), 10)
    machine.acked(3, 0)
    machine.source_lost()
    assert machine.claim_next(9) == [2, 3]
    assert machine.claim_next(9) == []
    machine.chunk(2, 0, digest(2, 0), 10)
    machine.chunk(3, 0, digest(3, 0), 10)
    assert machine.claim_next(9) == [1, 4]


def test_after_a_loss_a_partition_whose_end_was_read_is_not_waited_for() -> None:
    machine = Partitions(2)
    machine.claim_next(1)
    read(machine, 0, 1)
    machine.source_lost()
    assert machine.claim_next(9) == [1]


def test_a_partition_whose_last_acks_are_not_known_is_compared_first_too() -> None:
    begun = {"acked": "0-1", "sum": f"{digest(1, 0) + digest(1, 1):016x}", "rows": 20, "recent": {}, "open": {}}
    known = merged([{"finished": "", "rows": 0, "begun": {"1": begun}, "samples": {}}])
    machine = Partitions(2, known=known)
    assert machine.claim_next(9) == [1]
    assert read(machine, 1, 3) == [2]


def test_a_chunk_that_was_given_up_is_not_emitted_again_in_this_run() -> None:
    machine = Partitions(1)
    machine.claim_next(1)
    machine.chunk(0, 0, digest(0, 0), 10)
    machine.given_up(0, 0)
    machine.source_lost()
    machine.claim_next(1)
    assert read(machine, 0, 2) == [1]


def test_only_an_open_chunk_can_be_given_up_or_acked() -> None:
    machine = Partitions(2)
    machine.claim_next(1)
    read(machine, 0, 3)
    machine.acked(0, 0)
    for partition, number in ((0, 0), (0, 3), (1, 0), (7, 0)):
        machine.given_up(partition, number)
        assert not machine.acked(partition, number)
    assert (machine.open, machine.rows) == (2, 10)
    machine.acked(0, 1)
    assert machine.done == 0
    machine.acked(0, 2)
    assert (machine.open, machine.rows, machine.done) == (0, 30, 1)


def test_the_run_is_settled_when_its_last_chunk_is_given_up() -> None:
    machine = Partitions(1)
    machine.claim_next(1)
    read(machine, 0, 2)
    machine.acked(0, 0)
    assert not machine.is_settled
    machine.given_up(0, 1)
    assert machine.is_settled


def test_a_partition_of_unknown_number_with_open_chunks_is_found_once() -> None:
    machine = Partitions(None)
    assert machine.claim(3)
    read(machine, 3, 1)
    assert not machine.claim(3)
    assert (machine.total, machine.unread()) == (1, [])
