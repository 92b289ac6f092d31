"""A job that reads a stream, to be killed: its JVM, or all of it, in the middle of a batch.

    python -m tests.spark.stream_kills --kills 10      kills at random, then looks: nothing lost, none twice

The sink keeps each chunk in a file of its own, named by the chunk's id, written whole: a replay writes the same file. A
replay with other rows is said, and is a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, LocalCluster, RunningTopology, TopologyBuilder, TopologyFailedError
from aiostorm.spark import SparkStreamSpout

from .conftest import LIGHT, in_thread
from .stale_threads import threads_left
from .stream_parts import ROWS, StreamFolder

ROOT = str(Path(__file__).resolve().parents[2])
LIMIT_S = 120.0
SETTINGS = {**LIGHT, "spark.master": "local[2]"}


def say(**words: Any) -> None:
    """Send a message to the parent process."""
    print(json.dumps({**words, "at_s": round(time.monotonic(), 2)}), flush=True)


class FilesBolt(BasicBolt):
    """Keeps chunks in files. At the chunk `hold` it reports, and waits for `go_on`."""

    def __init__(self, out: Path, hold: str, go_on: Continue | None) -> None:
        self.out = out
        self.hold = hold
        self.go_on = go_on

    def __deepcopy__(self, memo: Any) -> FilesBolt:
        return self

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        chunk = batch.schema.metadata[b"aiostorm.chunk"].decode()
        numbers = batch.column("n").to_pylist()
        path = self.out / (chunk.replace("/", "_") + ".json")
        if path.exists() and json.loads(path.read_text()) != numbers:
            say(differs=chunk)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(numbers))
        part.replace(path)
        say(chunk=chunk)
        if chunk == self.hold and self.go_on is not None:
            self.hold = ""
            say(holds=chunk)
            await self.go_on.wait()


class Continue:
    """Lines on standard input."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for _ in sys.stdin:
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


async def job(folder: Path, holds: list[str], *, frame: bool) -> None:
    """Take in all that is there. Then, if asked, the same with a DataFrame whose session is stopped."""
    place = StreamFolder(folder, made=True)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    go_on = Continue()
    bolt = FilesBolt(out, holds[0] if holds else "", go_on)

    def source(spark: Any) -> Any:
        say(jvm=spark.sparkContext._gateway.proc.pid)
        if len(holds) > 1 and not bolt.hold:
            bolt.hold = holds[1]
        return place.read(spark)

    spout = SparkStreamSpout(
        source,
        str(place.checkpoint),
        fields=["n", "text"],
        session=SETTINGS,
        trigger={"availableNow": True},
        chunk_rows=ROWS // 3,
        max_pending=1,
    )
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", line(spout, bolt))
        await running.wait_finished(LIMIT_S)
        results = await running.results()
        say(result=results["clicks"][0], errors=[report.error for report in running.errors()])
        if frame:
            await stopped_session(place, cluster)
            await silent_session(place, cluster)
    say(threads=await threads_left())


async def stopped_session(place: StreamFolder, cluster: LocalCluster) -> None:
    """A DataFrame cannot be made anew: the topology fails, and says what to give instead."""
    from pyspark.sql import SparkSession

    session = await asyncio.to_thread(SparkSession.builder.getOrCreate)
    running = await framed(place, cluster, session, "stopped")
    await asyncio.to_thread(in_thread, session.stop)
    await failing(running)


async def silent_session(place: StreamFolder, cluster: LocalCluster) -> None:
    """A JVM that hangs, and is not ours to kill: the topology fails, and waits for nothing."""
    from pyspark.sql import SparkSession

    from aiostorm.spark import jvm_watch

    jvm_watch.ANSWER_S = 1.0  # type: ignore[misc]
    session = await asyncio.to_thread(SparkSession.builder.getOrCreate)
    running = await framed(place, cluster, session, "silent")
    async with asyncio.timeout(LIMIT_S):
        while not any((place.folder / "out-silent").iterdir()):  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.05)
    jvm = session.sparkContext._gateway.proc
    jvm.send_signal(signal.SIGSTOP)
    await failing(running)
    await running.kill(0)
    jvm.kill()


async def framed(place: StreamFolder, cluster: LocalCluster, session: Any, name: str) -> RunningTopology:
    """A topology that reads the stream as a DataFrame of this session."""
    given = await asyncio.to_thread(lambda: place.read(session))
    spout = SparkStreamSpout(given, str(place.folder / name))
    out = place.folder / f"out-{name}"
    out.mkdir()
    return await cluster.submit(name, line(spout, FilesBolt(out, "", None)))


async def failing(running: RunningTopology) -> None:
    """Say why it fails."""
    try:
        async with asyncio.timeout(LIMIT_S):
            await running.wait_ended()
    except TopologyFailedError as error:
        say(failed=str(error))


def line(spout: Any, bolt: Any) -> Any:
    """spout ─► bolt."""
    builder = TopologyBuilder()
    builder.set_spout("clicks", spout)
    builder.set_bolt("sink", bolt).shuffle_grouping("clicks")
    return builder.create_topology()


class Process:
    """The job in a process of its own; `messages` are those that it has sent."""

    def __init__(self, folder: Path, holds: tuple[str, ...] = (), *, frame: bool = False) -> None:
        self.messages: list[dict[str, Any]] = []
        self._killed: set[int] = set()
        self._errors = (folder / "errors.txt").open("ab")
        command = [sys.executable, "-m", "tests.spark.stream_kills", "--job", str(folder), "--holds", *holds]
        self.process = subprocess.Popen(
            [*command, *(["--frame"] if frame else [])],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def until(self, word: str) -> Any:
        """Read what it says until it says this."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if text.startswith("{"):
                self.messages.append(json.loads(text))
                if word in self.messages[-1]:
                    return self.messages[-1][word]
        raise AssertionError(f"it ended ({self.process.wait()}) and never said {word!r}: {self.messages[-20:]}")

    def says_chunks(self, count: int) -> bool:
        """So many more chunks, unless it ends before."""
        try:
            return all(self.until("chunk") for _ in range(count))
        except AssertionError:
            return False

    def all(self, word: str) -> list[Any]:
        """All that it has said of this."""
        return [said[word] for said in self.messages if word in said]

    def go_on(self) -> None:
        """It holds no longer."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill_jvm(self) -> bool:
        """kill -9; was it there?"""
        pid = self.all("jvm")[-1]
        if pid in self._killed:
            return False
        self._killed.add(pid)
        os.kill(pid, signal.SIGKILL)
        return True

    def kill(self) -> int:
        """kill -9 of Python; its JVM's process id."""
        self.process.kill()
        self.process.wait()
        return int(self.all("jvm")[-1]) if self.all("jvm") else 0

    def end(self) -> int:
        """Read its messages to its end."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if text.startswith("{"):
                self.messages.append(json.loads(text))
        return self.process.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *what: object) -> None:
        self.process.kill()
        self.process.__exit__(*what)
        self._errors.close()


def has_ended(pid: int, within_s: float = 30.0) -> bool:
    """Whether this process ends soon. (A JVM checks its parent now and then.)"""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def kept(folder: Path) -> list[int]:
    """All rows in the sink."""
    return sorted(n for path in (folder / "out").glob("*.json") for n in json.loads(path.read_text()))


def random_kills(kills: int, files: int, seed: int) -> int:
    """Kill at random, until it has been enough; then let it end. Is all there, once?"""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="aiostorm-kills-") as name:
        folder = Path(name) / "stream"
        StreamFolder(folder).add(files)
        done, began = 0, time.monotonic()
        ended = False
        while not ended:
            with Process(folder) as process:
                process.until("jvm")
                while done < kills and process.says_chunks(chance.randrange(1, 6)):
                    time.sleep(chance.random() * 0.05)
                    if chance.random() < 0.5:
                        if process.kill_jvm():  # else it was killed before: what is read now was said then
                            print(f"{time.monotonic() - began:6.1f} s: kill -9 of the JVM", flush=True)
                            done += 1
                    else:
                        print(f"{time.monotonic() - began:6.1f} s: kill -9 of Python", flush=True)
                        done += 1
                        assert has_ended(process.kill()), "the JVM outlives its Python"
                        break
                ended = process.end() == 0 and bool(process.all("result"))
        rows = kept(folder)
        wanted = list(range(files * ROWS))
        lost, twice = len(set(wanted) - set(rows)), len(rows) - len(set(rows))
        print(f"{done} kills, {len(wanted)} rows: {lost} lost, {twice} twice, {process.all('differs')} differ")
        return int(bool(lost or twice))


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", type=Path)
    parser.add_argument("--holds", nargs="*", default=[])
    parser.add_argument("--frame", action="store_true")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.job is None:
        return random_kills(given.kills, given.files, given.seed)
    asyncio.run(job(given.job, given.holds, frame=given.frame))
    return 0


if __name__ == "__main__":
    sys.exit(main())
