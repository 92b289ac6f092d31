"""kill -9 of the JVM in the middle of a batch: all is there, under the same ids. (Of Python: test_kills.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from .stream_kills import Process, kept
from .stream_parts import ROWS, StreamFolder

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.slow, pytest.mark.timeout(300)]  # two JVMs


def test_a_killed_jvm_loses_nothing(java: None, tmp_path: Path) -> None:
    folder = tmp_path / "stream"
    StreamFolder(folder).add(4)
    with Process(folder, ("clicks/b1/0/1", "clicks/b2/0/1"), frame=True) as job:
        assert job.until("holds") == "clicks/b1/0/1"
        job.kill_jvm()
        job.go_on()
        assert job.until("holds") == "clicks/b2/0/1"  # a new session, a new query; batch 1 has come again
        chunks = job.all("chunk")
        assert chunks.count("clicks/b1/0/0") == 2
        assert not [chunk for chunk in chunks if chunk.startswith("clicks/b3")]
        job.go_on()
        assert job.end() == 0
    assert [result["last_batch"] for result in job.all("result")] == [3]
    assert kept(folder) == list(range(4 * ROWS))
    assert job.all("differs") == []
    assert job.all("threads") == [[]]
    stopped, silent = job.all("failed")
    assert "a DataFrame cannot be made anew: give a function as source= (it is called again)" in stopped
    assert "the query of 'clicks' has ended: Spark has not answered for 1 s" in silent
