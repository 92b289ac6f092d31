"""The egress log: offsets never go back, memory is bounded, what was not committed is there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark.datasource.egress_log import REMEMBERED, ChunkInfo, EgressLog


def log(
    *, rows: int = 100, size_bytes: int = 1000, forgets: bool = False, consumers: tuple[str, ...] = ("a",)
) -> EgressLog:
    return EgressLog("log", consumers, max_rows=rows, max_bytes=size_bytes, forgets=forgets)


def test_a_log_is_full_until_a_chunk_is_committed() -> None:
    kept = log(rows=20)
    assert [kept.add(ChunkInfo(10, 1)), kept.add(ChunkInfo(10, 1))] == [0, 1]
    assert not kept.has_capacity(ChunkInfo(1, 1))
    assert kept.trim("a", 1)
    assert not kept.trim("a", 1)
    assert kept.has_capacity(ChunkInfo(10, 1))
    assert (kept.first, kept.end, kept.rows) == (1, 2, 10)


def test_a_chunk_with_a_name_is_known_also_when_it_is_kept_no_more() -> None:
    kept = log()
    kept.add(ChunkInfo(1, 1, "a"))
    kept.add(ChunkInfo(1, 1))
    assert (kept.has("a"), kept.has(""), kept.has("b")) == (True, False, False)
    kept.trim("a", 2)
    assert (kept.first, kept.has("a")) == (2, True)
    for number in range(REMEMBERED + 1):
        kept.add(ChunkInfo(1, 0, str(number)))
        kept.trim("a", kept.end)
    assert not kept.has("a")
    again = EgressLog("log", ("a",), max_rows=9, max_bytes=9, sizes=[ChunkInfo(1, 1, "x")])
    assert again.has("x")


def test_a_chunk_larger_than_the_log_is_kept_alone() -> None:
    kept = log(size_bytes=10)
    assert kept.has_capacity(ChunkInfo(1, 1000))
    kept.add(ChunkInfo(1, 1000))
    assert not kept.has_capacity(ChunkInfo(1, 1))


def test_a_chunk_goes_when_all_have_committed_it() -> None:
    kept = log(consumers=("a", "b"))
    for _ in range(3):
        kept.add(ChunkInfo(1, 1))
    kept.trim("a", 3)
    assert kept.first == 0
    kept.trim("b", 2)
    assert (kept.first, kept.committed) == (2, {"a": 3, "b": 2})


def test_the_oldest_go_when_it_forgets() -> None:
    kept = log(rows=25, forgets=True)
    for _ in range(4):
        assert kept.has_capacity(ChunkInfo(10, 1))
        kept.add(ChunkInfo(10, 1))
    assert (kept.first, kept.end) == (2, 4)
    kept.trim("a", 4)
    assert kept.first == 2


def test_a_look_has_limits_and_gives_one_at_least() -> None:
    kept = log()
    for rows in (10, 20, 30):
        kept.add(ChunkInfo(rows, rows))
    assert kept.upto(0) == 3
    assert kept.upto(0, max_rows=30) == 2
    assert kept.upto(0, max_rows=5) == 1
    assert kept.upto(1, max_bytes=20) == 2
    assert kept.upto(3) == 3


def test_the_error_of_an_unavailable_chunk_has_the_reason() -> None:
    kept = log(rows=10)
    kept.add(ChunkInfo(10, 1))
    kept.trim("a", 1)
    kept.add(ChunkInfo(10, 1))
    assert kept.problem("a", "log", 1, 2) is None
    assert "checkpoint" in str(kept.problem("a", "log", 0))
    assert "directory=" in str(kept.problem("a", "older", 1))
    assert "consumer" in str(kept.problem("x", "log", 1))
    assert kept.problem("a", "log", 1, 3)
    assert kept.problem("a", "log", 2, 1)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 40), st.integers(1, 400)),
            st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.just(0)),
        ),
        max_size=60,
    ),
    st.booleans(),
)
def test_random_adds_and_commits(events: list[tuple[str, int, int]], forgets: bool) -> None:
    kept = log(consumers=("a", "b"), forgets=forgets)
    sizes: list[ChunkInfo] = []
    lowest = {"a": 0, "b": 0}
    for what, number, size_bytes in events:
        before = (kept.first, kept.end)
        if what == "add":
            size = ChunkInfo(number, size_bytes)
            if kept.has_capacity(size):
                assert kept.add(size) == len(sizes)
                sizes.append(size)
        else:
            kept.trim(what, number)
            lowest[what] = max(lowest[what], min(number, len(sizes)))
        assert kept.first >= before[0]
        assert kept.end == len(sizes)
        there = sizes[kept.first :]
        assert (kept.rows, kept.size_bytes) == (sum(s.rows for s in there), sum(s.size_bytes for s in there))
        assert len(there) <= 1 or (kept.rows <= 100 and kept.size_bytes <= 1000)
        assert kept.committed == lowest
        if not forgets:
            assert kept.first == min(lowest.values())
        assert kept.upto(kept.first, 50, 500) > kept.first or not there


def test_chunks_are_taken_up_to_the_limits() -> None:
    kept = log()
    for _ in range(4):
        kept.add(ChunkInfo(2, 10))
    assert [kept.upto(0, max_bytes=most) for most in (0, 1, 10, 19, 20, 21)] == [4, 1, 1, 1, 2, 2]
    assert [kept.upto(1, max_rows=most) for most in (0, 1, 2, 3, 4)] == [4, 2, 2, 2, 3]


def test_which_offsets_are_there() -> None:
    kept = log()
    for _ in range(4):
        kept.add(ChunkInfo(1, 1))
    kept.trim("a", 1)
    there = [(begin, end) for begin in range(6) for end in range(6) if kept.problem("a", "log", begin, end) is None]
    assert there == [(begin, end) for begin in range(1, 5) for end in range(begin, 5)]
    assert kept.problem("a", "log", 4) is None
    assert "not there" in str(kept.problem("a", "log", 0))
