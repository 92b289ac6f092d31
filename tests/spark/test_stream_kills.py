"""kill -9 of the JVM and of Python in the middle of a batch: all is there, under the same ids, nobody left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from .stream_kills import Process, gone, kept
from .stream_parts import ROWS, Place

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.slow, pytest.mark.timeout(400)]  # three JVMs


def test_a_killed_jvm_then_a_killed_python_lose_nothing(java: None, tmp_path: Path) -> None:
    folder = tmp_path / "stream"
    Place(folder).add(4)
    with Process(folder, ("clicks/b1/0/1", "clicks/b2/0/1")) as first:
        assert first.until("holds") == "clicks/b1/0/1"
        first.kill_jvm()
        first.go_on()
        assert first.until("holds") == "clicks/b2/0/1"  # a new session, a new query; batch 1 has come again
        chunks = first.all("chunk")
        assert chunks.count("clicks/b1/0/0") == 2
        assert not [chunk for chunk in chunks if chunk.startswith("clicks/b3")]
        assert gone(first.kill()), "the JVM outlives its Python"
    with Process(folder, frame=True) as second:
        assert second.end() == 0
    assert second.all("chunk")[0] == "clicks/b2/0/0"
    assert second.all("result") == [{"batches": 2, "rows": 2 * ROWS, "last_batch": 3}]
    assert kept(folder) == list(range(4 * ROWS))
    assert first.all("differs") == second.all("differs") == []
    assert second.all("threads") == [[]]
    [failed] = second.all("failed")
    assert "a DataFrame cannot be made anew: give a function as source= (it is called again)" in failed
