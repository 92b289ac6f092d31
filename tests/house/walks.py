"""How many functions one tuple goes through: `python -m tests.house.walks`.

A row of a window is followed from its emit until the next bolt executes the result of a window that the row has ended:
the row, the watermark behind it, and the window that fires.

One message is emitted by a spout task, executed by a bolt task (or by two, one after the other), and acked: within one
process, and from one worker to another. Between emit and ack a profiler counts the calls of Python functions of
aiostorm, the files that they are in, and the frames that workers send. Only one message is open at a time, and nothing
else runs but the workers' own heartbeats; of several messages the one with the fewest calls counts.

Generators and comprehensions are calls, as Python's profiler counts them; with Python 3.12 and newer comprehensions are
none. Functions of asyncio and of other libraries are not counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import aiostorm
from aiostorm import BasicBolt, Fields, LocalCluster, Spout, Topology, TopologyBuilder, Tumbling, WindowedBolt
from aiostorm.windows import Count

MESSAGES: Final = 40
PAUSE_S: Final = 0.02
PACKAGE: Final = str(Path(aiostorm.__file__).parent) + os.sep
SENDS: Final = ("transport/net/stream_connection.py", "send")
"""The function that sends a frame to another process."""
TOOLS: Final = ("testing/",)


@dataclass(frozen=True, slots=True)
class Walk:
    """What one message took."""

    calls: int
    files: int
    frames: int
    functions: Counter[str]


class Recorder:
    """Every call of a function of aiostorm in this thread, with its time. The clock is the same in all processes."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, str, str]] = []

    def start(self) -> None:
        """Begin, if nothing was recorded yet."""
        if sys.getprofile() is None:
            sys.setprofile(self._called)

    def stop(self) -> list[tuple[int, str, str]]:
        """End, and give the calls: (nanoseconds, file, function). They are given once."""
        if sys.getprofile() is not None:
            sys.setprofile(None)
        calls, self.calls = self.calls, []
        return calls

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            file = frame.f_code.co_filename.removeprefix(PACKAGE)
            if not file.startswith(TOOLS):
                self.calls.append((time.monotonic_ns(), file, frame.f_code.co_qualname))


RECORDER: Final = Recorder()


class Source(Spout):
    """Emits a message whenever the one before is acked and all work for it is over."""

    outputs = Fields("n")
    config = {"max_spout_pending": 1}  # noqa: RUF012

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.next = 0
        self.emitted: list[int] = []
        self.acked: list[int] = []

    def open(self, context: Any, collector: Any) -> None:
        """Begin to record."""
        self.collector = collector
        RECORDER.start()

    async def next_tuple(self) -> None:
        """Emit one message."""
        await asyncio.sleep(PAUSE_S)
        if self.next == MESSAGES:
            self.collector.finish()
            return
        self.emitted.append(time.monotonic_ns())
        self.collector.emit((self.next,), message_id=self.next)
        self.next += 1

    def ack(self, message_id: Any) -> None:
        """The end of the walk."""
        self.acked.append(time.monotonic_ns())

    def close(self) -> None:
        """Write what was recorded."""
        _write(self.folder, {"calls": RECORDER.stop(), "walks": [*zip(self.emitted, self.acked, strict=True)]})


class Forward(BasicBolt):
    """Emits what it takes."""

    outputs = Fields("n")

    def execute(self, tup: Any, collector: Any) -> None:
        """Emit it."""
        collector.emit((tup["n"],))


class Sink(BasicBolt):
    """Takes what comes, and remembers where it ran."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.executed: list[int] = []

    def prepare(self, context: Any) -> None:
        """Begin to record."""
        RECORDER.start()

    def execute(self, tup: Any, collector: Any) -> None:
        """Remember the message."""
        self.executed.append(tup["n"])

    def cleanup(self) -> None:
        """Write what was recorded."""
        _write(self.folder, {"calls": RECORDER.stop(), "executed": self.executed})


class Results(Sink):
    """Takes the results of windows."""

    def execute(self, tup: Any, collector: Any) -> None:
        """Remember when one came."""
        self.executed.append(time.monotonic_ns())


def _write(folder: str, found: dict[str, Any]) -> None:
    with tempfile.NamedTemporaryFile(
        "w", dir=folder, prefix=f"{os.getpid()}-", suffix=".json", delete=False, encoding="utf-8"
    ) as file:
        json.dump(found, file)


def topology(folder: str, bolts: str, sinks: str) -> Topology:
    """A chain of a spout and so many bolts, the last with so many tasks, which write what they have recorded."""
    builder = TopologyBuilder()
    builder.set_spout("source", Source(folder))
    before = "source"
    for number in range(int(bolts) - 1):
        builder.set_bolt(f"forward-{number}", Forward).shuffle_grouping(before)
        before = f"forward-{number}"
    builder.set_bolt("sink", Sink(folder), parallelism=int(sinks)).shuffle_grouping(before)
    return builder.create_topology("walk")


def window_topology(folder: str) -> Topology:
    """A window that ends with each row, and a bolt that takes the results."""
    builder = TopologyBuilder()
    builder.set_spout("source", Source(folder))
    builder.set_bolt("windows", WindowedBolt(Tumbling(1), Count(), timestamp="n")).shuffle_grouping("source")
    builder.set_bolt("sink", Results(folder)).shuffle_grouping("windows")
    return builder.create_topology("walk")


async def run_windows(folder: str) -> None:
    """Run the topology with windows to its end, in this process."""
    async with LocalCluster() as cluster:
        config = {"acker_executors": 1, "watermark_interval_ms": 1}
        await (await cluster.submit("walk", window_topology(folder), config)).wait_finished(60)


async def run(folder: str, bolts: int, workers: int) -> None:
    """Run the topology to its end, in this process (0) or on workers."""
    arguments = (folder, str(bolts), str(max(1, workers)))
    async with LocalCluster(workers=workers) as cluster:
        config = {"acker_executors": 1}
        running = (
            await cluster.submit("walk", "tests.house.walks:topology", config, arguments=arguments)
            if workers
            else await cluster.submit("walk", topology(*arguments), config)
        )
        await running.wait_finished(60)


def walks(folder: str) -> Iterator[Walk]:
    """The walks that were recorded: those between processes, if there were several."""
    found = [
        (path.name.partition("-")[0], json.loads(path.read_text("utf-8")))
        for path in sorted(Path(folder).glob("*.json"))
    ]
    [(home, source)] = [(pid, part) for pid, part in found if "walks" in part]
    elsewhere = {number for pid, part in found if pid != home for number in part.get("executed", ())}
    calls = [call for _, part in found for call in part["calls"]]
    for number, (begin, end) in enumerate(source["walks"]):
        if elsewhere and number not in elsewhere:
            continue
        yield _walk([(file, function) for at, file, function in calls if begin <= at <= end])


def _walk(inside: list[tuple[str, str]]) -> Walk:
    """What was called, as (file, function)."""
    return Walk(
        calls=len(inside),
        files=len({file for file, _ in inside}),
        frames=sum(file == SENDS[0] and function.endswith(f".{SENDS[1]}") for file, function in inside),
        functions=Counter(f"{file} {function}" for file, function in inside),
    )


def window_walks(folder: str) -> Iterator[Walk]:
    """The walks of rows that have ended a window."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(Path(folder).glob("*.json"))]
    [emitted] = [[begin for begin, _ in part["walks"]] for part in found if "walks" in part]
    [results] = [part["executed"] for part in found if "executed" in part]
    calls = [call for part in found for call in part["calls"]]
    for begin, after in pairwise(emitted):
        end = min((at for at in results if begin < at < after), default=None)
        if end is not None:
            yield _walk([(file, function) for at, file, function in calls if begin <= at <= end])


def shortest(found: Iterable[Walk]) -> Walk:
    """The walk with the fewest calls."""
    return min(found, key=lambda walk: walk.calls)


def main() -> None:
    """Print a table, and with -v every function of each walk."""
    print("| one tuple, emit to ack | calls | files | frames |\n|---|---|---|---|")
    for name, bolts, workers in (
        ("one bolt, one process", 1, 0),
        ("two bolts, one process", 2, 0),
        ("one bolt, in another worker", 1, 2),
    ):
        with tempfile.TemporaryDirectory(prefix="walk") as folder:
            asyncio.run(run(folder, bolts, workers))
            show(name, shortest(walks(folder)))
    with tempfile.TemporaryDirectory(prefix="walk") as folder:
        asyncio.run(run_windows(folder))
        show("a row of a window, and its result", shortest(window_walks(folder)))


def show(name: str, walk: Walk) -> None:
    """Print a line, and with -v every function of the walk."""
    print(f"| {name} | {walk.calls} | {walk.files} | {walk.frames} |")
    if "-v" in sys.argv[1:]:
        print(*(f"    {count:4} {function}" for function, count in sorted(walk.functions.items())), sep="\n")


if __name__ == "__main__":
    main()
