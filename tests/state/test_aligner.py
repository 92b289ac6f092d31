"""The aligner, with any interleaving of sources that keep their own order."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.state import Aligned, Aligner, Lost


def aligner(*sources: int, rows: int = 0) -> Aligner:
    made = Aligner(sources)
    for source in sources:
        made.received[source] += rows
    return made


class Sources:
    """Sources that send rows and barriers, and wait behind a barrier until the task is aligned, as senders do."""

    def __init__(self, rows: list[list[int]]) -> None:
        # rows[source][n - 1]: the rows before barrier n.
        self.aligner = Aligner(range(len(rows)))
        self.sent: Counter[int] = Counter()
        self.results: list[Aligned | Lost | None] = []
        self.held: set[int] = set()
        self.aborted = 0
        self._queues = {
            source: deque(item for number, count in enumerate(counts, 1) for item in (*[0] * count, number))
            for source, counts in enumerate(rows)
        }

    @property
    def ready(self) -> list[int]:
        return [source for source, queue in self._queues.items() if queue and source not in self.held]

    def step(self, source: int, arrives: int = 1) -> Aligned | Lost | None:
        """The next row or barrier of a source. `arrives`: how many times a row arrives."""
        number = self._queues[source].popleft()
        if not number:
            self.sent[source] += 1
            self.aligner.received[source] += arrives
            return None
        result = self.aligner.barrier(source, number, self.sent[source])
        if number > self.aborted:
            self.held.add(source)
        self.results.append(result)
        if isinstance(result, Aligned):
            self.held.clear()
        return result


rows_of_sources = st.integers(1, 4).flatmap(
    lambda numbers: st.lists(st.lists(st.integers(0, 4), min_size=numbers, max_size=numbers), min_size=1, max_size=5)
)


@given(rows_of_sources, st.data())
def test_each_number_is_aligned_once_at_its_last_barrier(rows: list[list[int]], data: st.DataObject) -> None:
    sources = Sources(rows)
    while ready := sources.ready:
        result = sources.step(data.draw(st.sampled_from(ready)))
        if result is not None:
            assert isinstance(result, Aligned)
            assert dict(sources.aligner.received) == {
                source: sum(counts[: result.number]) for source, counts in enumerate(rows)
            }
    aligned = [Aligned(number) for number in range(1, len(rows[0]) + 1)]
    assert [result for result in sources.results if result] == aligned
    assert sources.results == [result for number in aligned for result in (*[None] * (len(rows) - 1), number)], (
        "only the last barrier of a number aligns"
    )


@given(rows_of_sources.filter(lambda rows: any(map(any, rows))), st.sampled_from((0, 2)), st.data())
def test_a_row_that_is_lost_or_arrives_twice_is_reported_and_no_later_number_is_aligned(
    rows: list[list[int]], arrives: int, data: st.DataObject
) -> None:
    sources = Sources(rows)
    bad = data.draw(st.sampled_from([source for source, counts in enumerate(rows) if any(counts)]))
    at = data.draw(st.integers(1, sum(rows[bad])))  # the number of the row
    number = next(n for n in range(1, len(rows[bad]) + 1) if sum(rows[bad][:n]) >= at)
    lost: list[Lost] = []
    while ready := sources.ready:
        source = data.draw(st.sampled_from(ready))
        is_bad = source == bad and sources.sent[bad] + 1 == at
        result = sources.step(source, arrives if is_bad else 1)
        if isinstance(result, Lost):
            lost.append(result)
            sources.held.clear()  # the coordinator gives the number up, and the senders continue
        elif result is not None:
            assert result.number < number
    assert [report.number for report in lost] == list(range(number, len(rows[0]) + 1))
    for report in lost:
        sent = sum(rows[bad][: report.number])
        assert (report.source, report.sent, report.received) == (bad, sent, sent + arrives - 1)


@given(rows_of_sources, st.data())
def test_after_an_abort_at_any_point_the_later_numbers_are_aligned(rows: list[list[int]], data: st.DataObject) -> None:
    sources = Sources(rows)
    expected = []
    while ready := sources.ready:
        result = sources.step(data.draw(st.sampled_from(ready)))
        if isinstance(result, Aligned):
            expected.append(result.number)
        elif sources.aligner.number is not None and data.draw(st.booleans()):
            sources.aborted = sources.aligner.number
            sources.aligner.abort(sources.aborted)
            sources.held.clear()  # those that have not sent this barrier still send it: it is ignored
            assert sources.aligner.number is None
    results = [result for result in sources.results if result is not None]
    assert all(isinstance(result, Aligned) for result in results)
    numbers = [result.number for result in results]
    assert numbers == sorted(set(numbers)) == expected
    assert expected[-1:] == [len(rows[0])] or sources.aborted == len(rows[0])


def test_a_source_that_sends_rows_behind_its_barrier_is_reported() -> None:
    made = aligner(1, 2, rows=5)
    assert made.barrier(1, 1, 5) is None
    made.received[1] += 3  # the sender must hold these
    result = made.barrier(2, 1, 5)
    assert result == Lost(1, source=1, sent=5, received=8)
    assert "task 1 has sent 5 rows, and 8 were received" in str(result)


def test_an_aborted_number_is_ignored_and_the_next_one_is_aligned() -> None:
    made = aligner(1, 2)
    assert made.barrier(1, 1, 0) is None
    made.abort(1)
    made.received[1] += 3  # released by the abort
    assert made.barrier(2, 1, 0) is None
    assert made.barrier(1, 2, 3) is None
    assert made.barrier(2, 2, 0) == Aligned(2)


def test_an_abort_of_an_older_number_changes_nothing() -> None:
    made = aligner(1, 2)
    assert made.barrier(1, 5, 0) is None
    made.abort(4)
    assert made.number == 5
    assert made.barrier(2, 5, 0) == Aligned(5)
    made.abort(5)
    made.abort(3)
    assert made.barrier(1, 5, 0) is None
    assert made.barrier(1, 6, 0) is None
    assert made.barrier(2, 6, 0) == Aligned(6)


def test_a_greater_number_replaces_one_whose_abort_has_not_arrived_yet() -> None:
    made = aligner(1, 2)
    assert made.barrier(1, 1, 0) is None
    assert made.barrier(1, 2, 0) is None
    assert made.barrier(2, 1, 0) is None, "number 1 was given up"
    assert made.number == 2
    made.abort(1)
    assert made.barrier(2, 2, 0) == Aligned(2)


def test_numbers_need_not_follow_each_other() -> None:
    made = aligner(1)
    assert [made.barrier(1, number, 0) for number in (3, 1_000_000, 2**63)] == [
        Aligned(3),
        Aligned(1_000_000),
        Aligned(2**63),
    ]


def test_a_repeated_barrier_is_ignored() -> None:
    made = aligner(1, 2)
    assert made.barrier(1, 1, 0) is None
    assert made.barrier(1, 1, 0) is None
    assert made.barrier(2, 1, 0) == Aligned(1)
    assert made.barrier(2, 1, 0) is None


def test_a_number_that_is_over_does_not_begin_again() -> None:
    made = aligner(1)
    assert made.barrier(1, 1, 0) == Aligned(1)
    assert made.number is None
    assert made.barrier(1, 1, 0) is None, "a repeated barrier of the only source"
    made = aligner(1, 2, 3)
    assert made.barrier(1, 1, 0) is None
    assert made.barrier(2, 1, 5) == Lost(1, source=2, sent=5, received=0)
    assert made.number is None
    assert made.barrier(3, 1, 0) is None
    assert made.number is None, "nothing waits for the barriers of a number that was reported"


def test_a_row_of_a_task_that_is_no_source_is_an_error() -> None:
    made = aligner(1)
    with pytest.raises(KeyError):
        made.barrier(2, 1, 0)
