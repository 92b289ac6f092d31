"""Growth: each measure runs, and checks what it counts."""

from __future__ import annotations

import pytest

from benchmarks import growth


@pytest.mark.sockets
@pytest.mark.parametrize("style", growth.STYLES)
def test_a_word_count_is_checked_and_timed(style: str) -> None:
    found = growth.word_count(style, 2, 3, 50, 200)
    assert found["ns_a_word"] > found["plain_ns_a_word"] > 0


@pytest.mark.sockets
def test_start_and_memory_are_of_the_tasks() -> None:
    assert growth.start(6, 3, "")["start_s"] > 0
    assert 1 < growth.start(6, 3, "memory")["kb_a_task"] < 1000


def test_the_hashes_of_rows_and_of_a_column_are_compared_before_they_count() -> None:
    pytest.importorskip("pyarrow")
    assert set(growth.hashes(12, 100)) == {"ns_alone", "ns_in_a_batch", "ns_in_a_column"}
