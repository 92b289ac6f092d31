"""A parent that is killed with -9, and the next one: real processes, over unix sockets. Its workers go on."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster
from aiostorm.cluster import ProcessBackend
from aiostorm.transport import Credentials

from .spread_jobs import stamps
from .test_workers_real import JOBS, ROOT, until

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="unix sockets, and a signal"),
]

JOB = f"{JOBS}:ticking"
WORKERS = ("worker-1", "worker-2")
GAP_S, ADOPTED_S = 1.0, 10.0
"""Generous: the machine may have much else to do. What was measured is printed."""


@contextmanager
def process(words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as out:
        started = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=out, stderr=out)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def worker(name: str, sockets: Path, token: Path) -> list[str]:
    words = ["--name", name, "--connect", f"unix:{sockets}/parent", "--listen", f"unix:{sockets}/{name}"]
    return ["aiostorm", "worker", *words, "--token-file", str(token), "--target", JOB, "--outlive-parent", "60"]


async def parent(folder: Path, sockets: Path, token: Path, said: Path) -> None:
    """The program of a parent: says when its topology runs, with which processes, and what came out."""
    backend = ProcessBackend(f"unix:{sockets}/parent", Credentials.from_file(str(token)))
    began_s = time.monotonic()
    async with LocalCluster(remote_workers=WORKERS, backend=backend) as cluster:
        running = await cluster.submit("ticking", JOB, arguments=(str(folder),))
        say(said, began_s=began_s, runs_s=time.monotonic(), pids=[worker.pid for worker in running.workers()])
        await running.wait_finished()
        say(said, results=await running.results(), emitted=running.metrics()["ticking"].emitted)


def say(said: Path, **what: Any) -> None:
    with said.open("a") as file:
        file.write(json.dumps(what) + "\n")


def lines(said: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []


@pytest.mark.slow
def test_a_parent_is_killed_twice_and_the_same_workers_go_on_without_a_gap(tmp_path: Path) -> None:
    folder, token, log, said = (tmp_path / name for name in ("out", "token", "log", "said"))
    folder.mkdir()
    token.touch(0o600)
    token.write_bytes(Credentials.new("test").to_bytes())
    with ExitStack() as stack:
        # The path of a socket is short, and pytest's folders are long.
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aiostorm-")))
        program = [__name__, str(folder), str(sockets), str(token), str(said)]
        workers = [stack.enter_context(process(worker(name, sockets, token), log)) for name in WORKERS]
        first = stack.enter_context(process(program, log))
        try:
            asyncio.run(story(folder, said, workers, first, program, log))
        finally:
            print(log.read_text())


async def story(
    folder: Path,
    said: Path,
    workers: list[subprocess.Popen[bytes]],
    killed: subprocess.Popen[bytes],
    program: list[str],
    log: Path,
) -> None:
    pids = [started.pid for started in workers]
    await until(lambda: len(lines(said)) == 1)
    with ExitStack() as stack:
        for parents in (2, 3):
            await until(lambda: len(stamps(folder)) > 200 * parents)  # noqa: B023
            killed.kill()
            killed_s = time.monotonic()
            killed.wait()
            killed = stack.enter_context(process(program, log))
            await until(lambda: len(lines(said)) == parents)  # noqa: B023
            last = lines(said)[-1]
            print(f"Python and imports {last['began_s'] - killed_s:.2f} s, adopted {last['runs_s'] - killed_s:.2f} s")
            assert last["pids"] == pids
            assert last["runs_s"] - killed_s < ADOPTED_S
        await asyncio.sleep(1)
        (folder / "stop").touch()
        await until(lambda: len(lines(said)) == 4)
        assert [started.wait(10) for started in workers] == [0, 0]
        assert killed.wait(10) == 0
    found = stamps(folder)
    gaps_s = [after - before for (_, before), (_, after) in itertools.pairwise(found)]
    print(f"{len(found)} rows, the longest gap is {1000 * max(gaps_s):.0f} ms")
    assert max(gaps_s) < GAP_S
    emitted = lines(said)[-1]["emitted"]
    assert lines(said)[-1]["results"] == {"ticking": [emitted]}, "all are acked"
    assert sorted(n for n, _ in found) == list(range(emitted)), "each came, and once"


if __name__ == "__main__":
    asyncio.run(parent(*map(Path, sys.argv[1:])))
