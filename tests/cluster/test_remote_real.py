"""A worker that is started by hand, as a real process that dials a port: it works, is killed, and another comes."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiostorm import LocalCluster
from aiostorm.cluster import ProcessBackend
from aiostorm.transport import Credentials

from .spread_jobs import written
from .test_workers_real import JOBS, ROOT, until

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="it is killed by a signal"),
]

COUNT = 1000


@contextlib.contextmanager
def worker(parent: str, token: Path, target: str) -> Iterator[subprocess.Popen[str]]:
    """What `aiostorm run --remote-workers 1` says is to be typed on the other machine."""
    words = ["--name", "remote-1", "--connect", parent, "--token-file", str(token), "--target", target]
    command = [sys.executable, "-m", "aiostorm", "worker", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_worker_that_is_started_by_hand_and_the_next_one_of_its_name(tmp_path: Path) -> None:
    folder, token = tmp_path / "written", tmp_path / "credentials"
    folder.mkdir()
    credentials = Credentials.new("test")
    token.touch(0o600)
    token.write_bytes(credentials.to_bytes())
    asyncio.run(by_hand(folder, token, credentials))


async def by_hand(folder: Path, token: Path, credentials: Credentials) -> None:
    backend = ProcessBackend("127.0.0.1:0", credentials)
    async with LocalCluster(workers=1, remote_workers=1, backend=backend) as cluster:
        job = f"{JOBS}:numbers"
        with worker(cluster.address, token, job) as first:
            running = await cluster.submit("numbers", job, arguments=(str(folder), str(COUNT), "0.015"))
            assert [w.name for w in running.workers()] == ["worker-1", "remote-1"]
            assert running.workers()[1].pid == first.pid
            await until(lambda: len(written(folder)) > 100)
        with worker(cluster.address, token, job) as second:
            await running.wait_finished(60)
            assert running.workers()[1].pid == second.pid
            assert [w.restarts for w in running.workers()] == [0, 1]
            assert set(written(folder)) == set(range(COUNT))
            assert (await running.results())["numbers"] == [COUNT]
            await running.kill()
            await until(lambda: second.poll() is not None)
            assert second.returncode == 0


@pytest.mark.slow
def test_user_code_may_hold_the_loop_of_a_worker_that_is_started_by_hand(tmp_path: Path) -> None:
    """For 30 s, as everywhere: a thread says that it lives. Its lease is 5 s."""
    folder, token = tmp_path / "written", tmp_path / "credentials"
    folder.mkdir()
    credentials = Credentials.new("test")
    token.touch(0o600)
    token.write_bytes(credentials.to_bytes())

    async def run() -> None:
        backend = ProcessBackend("127.0.0.1:0", credentials)
        async with LocalCluster(workers=1, remote_workers=1, backend=backend) as cluster:
            job = f"{JOBS}:held"
            with worker(cluster.address, token, job) as first:
                running = await cluster.submit("held", job, arguments=(str(folder), "50"))
                assert running.workers()[1].pid == first.pid
                await running.wait_finished(100)
                assert [w.restarts for w in running.workers()] == [0, 0]
                assert sorted(written(folder)) == list(range(50))

    asyncio.run(run())
