"""Workers that are real processes, over real sockets: few, since each takes a second to start."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiostorm import LocalCluster
from aiostorm.cluster import LifecycleTimings

from .spread_jobs import numbers, written

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="a worker of ours listens at a unix socket"),
]

ROOT = Path(__file__).parents[2]
JOBS = "tests.cluster.spread_jobs"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


async def until(ready: Callable[[], bool], within_s: float = 40.0) -> None:
    limit_s = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < limit_s, "it did not come"
        await asyncio.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "written"
    made.mkdir()
    return made


@pytest.mark.slow
def test_a_worker_that_is_killed_and_one_that_is_frozen_are_replaced_and_nothing_is_lost(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    asyncio.run(killed_and_frozen(folder, caplog))


async def killed_and_frozen(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    count = 2000
    async with LocalCluster(workers=2, timings=LifecycleTimings(lease_s=3.0)) as cluster:
        job = f"{JOBS}:numbers"
        running = await cluster.submit("numbers", job, arguments=(str(folder), str(count), "0.015"))
        for signalled in (signal.SIGKILL, signal.SIGSTOP):
            await until(lambda: running.workers()[1].phase == "RUNNING")
            before = len(written(folder))
            await until(lambda before=before: len(written(folder)) > before + 100)  # type: ignore[misc]
            victim = running.workers()[1]
            os.kill(victim.pid, signalled)
            await until(lambda victim=victim: running.workers()[1].restarts > victim.restarts)  # type: ignore[misc]
            assert not alive(victim.pid)
        await running.wait_finished(60)
        assert set(written(folder)) == set(range(count))
        assert (await running.results())["numbers"] == [count]
        assert [w.restarts for w in running.workers()] == [0, 2]
        pids = [w.pid for w in running.workers()]
    assert not any(alive(pid) for pid in pids)
    assert re.search(rf"worker-1 write\[\d\] stdout: writes in {pids[0]}\b", caplog.text)
    assert "is killed: no sign of life for 3 s" in caplog.text


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files are made: a short path, since sockets stand there."""
    with tempfile.TemporaryDirectory(prefix="a") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield Path(short)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


@pytest.mark.slow
def test_starts_and_stops_leave_nothing(folder: Path, temporary: Path) -> None:
    asyncio.run(starts_and_stops(folder, temporary))


async def starts_and_stops(folder: Path, temporary: Path) -> None:
    open_after: list[int] = []
    for _ in range(2):
        async with LocalCluster(workers=1) as cluster:
            running = await cluster.submit("numbers", f"{JOBS}:numbers", arguments=(str(folder), "10"))
            await running.wait_finished(20)
            [status] = running.workers()
        assert not alive(status.pid)
        assert not os.listdir(temporary)
        open_after.append(descriptors())
    assert open_after[0] == open_after[1]


def test_the_command_counts_exactly_on_two_workers() -> None:
    target = ["examples.word_count:topology", "README.md", "docs/*.md"]
    words = [sys.executable, "-m", "aiostorm", "run", "--workers", "2", *target, "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    lines = [
        line
        for file in (ROOT / "README.md", *ROOT.glob("docs/*.md"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    counts = Counter(word for line in lines for word in re.findall(r"\w+", line.lower()))
    summary = report["summary"]
    assert summary["lines"] == report["messages"]["acked"] == len(lines)
    assert summary["words"] == report["components"]["count"]["executed"] == counts.total()
    assert summary["distinct words"] == len(counts)
    assert [count for _, count in summary["most frequent words"]] == [count for _, count in counts.most_common(20)]


@pytest.mark.slow
def test_windows_receive_the_end_of_their_streams_on_two_workers() -> None:
    words = [sys.executable, "-m", "aiostorm", "run", "--workers", "2", f"{JOBS}:windows", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"] == {"clicks": [4_000]}
    assert report["messages"]["acked"] == 4_000


def test_workers_do_not_outlive_a_parent_that_is_killed(folder: Path) -> None:
    command = [sys.executable, "-m", "aiostorm", "run", "--workers", "2", f"{JOBS}:numbers", str(folder), "1000000000"]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        limit_s = time.monotonic() + 30
        while len(list(folder.iterdir())) < 2:
            assert time.monotonic() < limit_s
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()
    pids = [int(file.suffix[1:]) for file in folder.iterdir()]
    limit_s = time.monotonic() + 20
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < limit_s, "orphans after 20 s"
        time.sleep(0.02)


def test_the_topology_of_a_module_is_found() -> None:
    from aiostorm.cluster import TargetError
    from aiostorm.cluster.targets import target_of

    from . import spread_jobs

    with pytest.raises(TargetError, match="no attribute of any module"):
        target_of(numbers("/nowhere"))
    spread_jobs.kept = numbers("/nowhere")  # type: ignore[attr-defined]
    try:
        assert target_of(spread_jobs.kept) == f"{JOBS}:kept"  # type: ignore[attr-defined]
    finally:
        del spread_jobs.kept  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_level_of_a_logger_is_changed_in_the_worker_too(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.run(louder(folder, caplog))


async def louder(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    def doubles() -> list[str]:
        return [record.message for record in caplog.records if "doubles" in record.message]

    async with LocalCluster(workers=1) as cluster:
        running = await cluster.submit("numbers", f"{JOBS}:numbers", arguments=(str(folder), "100000", "0.1"))
        await until(lambda: len(written(folder)) > 20)
        assert doubles() == []
        await running.set_log_level("aiostorm.tests.jobs", "DEBUG")
        try:
            await until(lambda: len(doubles()) > 3)
            assert doubles()[0].startswith("worker-1 double[")
            await running.set_log_level("aiostorm.tests.jobs", "INFO")
            before = len(written(folder))
            await until(lambda: len(written(folder)) > before + 20)
            caplog.clear()
            await until(lambda: len(written(folder)) > before + 40)
            assert doubles() == []
        finally:
            logging.getLogger("aiostorm.tests.jobs").setLevel(logging.NOTSET)
        await running.kill(0)
