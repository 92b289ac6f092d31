"""Workers in Spark tasks: on the session of these tests (two cores), and on a standalone Spark of two workers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster, RunningTopology
from aiostorm.cluster import WorkerError
from aiostorm.spark import SparkWorkers, SparkWorkersError
from aiostorm.spark.session_settings import VARIABLE
from aiostorm.spark.sessions import sessions
from aiostorm.transport import ExposedError

from ..cli.conftest import Command, aiostorm  # noqa: F401
from ..cluster.spread_jobs import written
from ..examples import load
from .conftest import LIGHT
from .standalone import standalone
from .worker_kills import STEPS_UP, alive, parent_of, until

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.blocks_loop, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
JOBS = "tests.spark.worker_jobs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "written"
    made.mkdir()
    return made


async def test_a_worker_in_a_slot_and_one_on_the_driver(
    spark: Any, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    count = 3000
    async with LocalCluster(backend=SparkWorkers(spark, slots=1)) as cluster:
        assert cluster.workers == 1
        running = await cluster.submit("numbers", f"{JOBS}:from_driver", arguments=(str(folder), str(count), "0.01"))
        worker, driver = running.workers()
        assert (worker.name, driver.name, driver.pid) == ("worker-1", "driver-1", os.getpid())
        assert len(driver.tasks) == 1
        assert worker.pid not in (0, os.getpid())
        await until(lambda: len(written(folder)) > 100)
        slot = parent_of(worker.pid)
        for victim in (worker.pid, slot):  # the worker, then Spark's Python worker with the next worker
            victim = parent_of(running.workers()[0].pid) if victim == slot else victim
            before = running.workers()[0]
            os.kill(victim, signal.SIGKILL)
            await until(lambda before=before: running.workers()[0].restarts > before.restarts)  # type: ignore[misc]
            await until(lambda: running.workers()[0].phase == "RUNNING")
            await until(lambda before=before: not alive(before.pid))  # type: ignore[misc]
        await running.wait_finished(90)
        assert set(written(folder)) == set(range(count))
        assert (await running.results())["numbers"] == [count]
        assert [w.restarts for w in running.workers()] == [2, 0]
        last = running.workers()[0].pid
    await until(lambda: not alive(last))
    assert "worker-1 write" in caplog.text  # what it prints
    assert spark.range(3).count() == 3  # the session is as it was
    token = [r.getMessage() for r in caplog.records if "credentials" in r.getMessage()]
    assert not token


async def test_each_worker_opens_its_resources_in_a_slot_and_on_the_driver(spark: Any, folder: Path) -> None:
    async with LocalCluster(backend=SparkWorkers(spark, slots=1)) as cluster:
        running = await cluster.submit("logs", f"{JOBS}:with_resource", arguments=(str(folder),))
        pids = {worker.name: worker.pid for worker in running.workers()}
        await running.wait_finished(60)
    for worker, tasks in (("worker-1", 2), ("driver-1", 0)):
        done = ["open", *["prepare"] * tasks, *["cleanup"] * tasks, "close"]
        assert (folder / worker).read_text().splitlines() == [f"{pids[worker]} {what}" for what in done]


async def test_impossible_settings_are_refused_before_the_start(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SparkWorkersError, match=r"3 slots need 3 cores, and local\[2\] has 2"):
        async with LocalCluster(backend=SparkWorkers(spark, slots=3)):
            pass
    with pytest.raises(SparkWorkersError, match=r"there is no file .*none\.py"):
        async with LocalCluster(backend=SparkWorkers(spark, py_files=[str(tmp_path / "none.py")])):
            pass
    with pytest.raises(ValueError, match="the worker backend has 2 workers, not 3"):
        LocalCluster(workers=3, backend=SparkWorkers(spark, slots=2))
    for missing, more in (("listen=HOST:PORT", {}), ("TLS and a token", {"listen": "127.0.0.1:0"})):
        with pytest.raises(ExposedError, match=missing):
            async with LocalCluster(backend=SparkWorkers({"spark.master": "spark://far.example:7077"}, **more)):
                pass
    assert sessions.lease().get() is not None  # it was not stopped


async def test_a_process_that_ends_at_once_leaves_no_socket_and_no_token(spark: Any) -> None:
    backend = SparkWorkers(spark, slots=1)
    backend.abandon()  # nothing is open yet
    async with backend:
        folder = Path(backend.address.removeprefix("unix:")).parent
        assert folder.is_dir()
        backend.abandon()
        assert not folder.exists()


async def test_no_free_core_is_an_error_that_says_what_to_change(
    spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("aiostorm.spark.workers.spawner.WAIT_S", 0.5)
    async with LocalCluster(backend=SparkWorkers(spark, slots=2)) as first:
        words = await first.submit("one", "examples.word_count:topology", arguments=("README.md",))
        there = await counted(words)
        async with LocalCluster(backend=SparkWorkers(spark, slots=1, start_limit_s=3.0)) as second:
            with pytest.raises(WorkerError, match=r"not ready 3 s after its start.*it may wait for a free core"):
                await second.submit("two", f"{JOBS}:from_driver", arguments=(str(folder), "10"))
    assert "give it more (spark.executor.instances" in caplog.text
    async with LocalCluster() as here:
        assert there == await counted(await here.submit("one", load("word_count").topology("README.md")))


async def counted(running: RunningTopology) -> Counter[str]:
    """All words of the word count, at its end."""
    await running.wait_finished(60)
    return sum(map(Counter, (await running.results())["count"]), Counter())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--slots", "2"], 2, "need --spark MASTER"),
        (["--spark", "local[2]", "--workers", "2"], 2, "remove --workers"),
        (["--spark", "local[2]", "--spark-conf", "memory=2g"], 2, "expected spark.KEY=VALUE"),
        (["--spark-conf", "memory=2g"], 2, "expected spark.KEY=VALUE"),
        (["--spark", "local[2]", "--spark-conf", "spark.master=local[3]"], 2, "remove one"),
        (["--spark", "spark://far.example:7077"], 78, "--listen"),
        (["--spark", "yarn", "--listen", "10.1.2.3:0"], 78, "TLS and a token"),
    ],
)
def test_the_command_refuses_wrong_arguments(
    aiostorm: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv(VARIABLE, "")  # the command sets it, for processes that it starts
    monkeypatch.chdir(ROOT)
    done = aiostorm("run", *words, "examples.word_count:topology")
    assert (done.code, said in done.err) == (code, True), done.err


@pytest.mark.slow
def test_the_command_on_standalone_spark_when_an_executor_is_killed(java: None, folder: Path) -> None:
    count = 1500
    settings = {**LIGHT, "spark.executor.memory": "512m", "spark.driver.memory": "512m"}
    settings["spark.executor.extraJavaOptions"] = settings["spark.driver.extraJavaOptions"]
    conf = [word for key, value in settings.items() for word in ("--spark-conf", f"{key}={value}")]
    job = ["--json", f"{JOBS}:from_driver", str(folder), str(count), "0.04"]
    with standalone(workers=2, cores=1) as master:  # one slot on each executor: what carries the other one lives
        words = [sys.executable, "-m", "aiostorm", "run", "--spark", master, "--slots", "2", *conf, *job]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                asyncio.run(until(lambda: len(writers(folder)) == 2 or process.poll() is not None))
                first = writers(folder)
                assert len(first) == 2, process.communicate()[1]
                os.kill(parent_of(min(first), STEPS_UP["executor"]), signal.SIGKILL)
                asyncio.run(until(lambda: len(writers(folder)) == 3 or process.poll() is not None))
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
    assert process.returncode == 0, err
    assert set(written(folder)) == set(range(count))
    assert json.loads(out)["results"]["numbers"] == [count]
    assert (len(writers(folder)), writers(folder) > first) == (3, True)  # the other slot was not touched
    assert f"reads in {process.pid}" in err
    assert not any(map(alive, writers(folder)))


def writers(folder: Path) -> set[int]:
    """The processes that have written."""
    return {int(path.suffix[1:]) for path in folder.iterdir() if path.stat().st_size}
