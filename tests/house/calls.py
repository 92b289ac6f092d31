"""How many Python functions a tuple costs: `python -m tests.house.calls`, against the figures of calls.json.

Each path is a topology that runs in virtual time with random numbers from a seed, once with a number of messages and
once with twice as many. The difference, divided by the number of messages, is what one message costs: the calls of
functions of aiostorm, the messages that mailboxes accepted, and the frames that connections were given. What starting
and stopping cost is in both runs. Generators count each time they go on. Comprehensions do not count: Python 3.12 and
newer make no function of them. So the figures are the same on every machine and in every run. With newer Pythons they
are the same, or a tenth of a call lower: those of Python 3.11 are written.

The figures may go down. `--update` writes those that did; a figure goes up by `--raise REASON` only, which writes the
reason beside it. Where a figure is the share of a turn (256 tuples), it has parts of a call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar, Final

import aiostorm
from aiostorm import BasicBolt, Bolt, LocalCluster, Spout, Topology, TopologyBuilder, Tumbling, WindowedBolt, bolt
from aiostorm.testing import VirtualTimeLoop
from aiostorm.testing.simulation import World
from aiostorm.windows import Count

from ..cluster.sim_workers import SimBackend, with_workers

FIGURES: Final = Path(__file__).with_name("calls.json")
ROOT: Final = os.path.realpath(Path(aiostorm.__file__).parents[1]) + os.sep
TOOLS: Final = ("testing/", "tests/", ".venv/")
MAILBOX: Final = ("offer", "post", "force")
"""Methods of mailboxes that accept a message."""
COMPREHENSIONS: Final = ("<listcomp>", "<dictcomp>", "<setcomp>")
DIGITS: Final = 2
PYTHON: Final = (3, 11)
"""Whose figures are written: the oldest that we support."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one message costs."""

    calls: float
    messages: float
    frames: float

    def higher(self, limit: Cost) -> list[str]:
        """The figures that are higher than the limit."""
        return [
            f"{name} {getattr(self, name)}, the limit is {getattr(limit, name)}"
            for name in self.__slots__
            if getattr(self, name) > getattr(limit, name)
        ]

    def merged(self, other: Cost, choose: Callable[[float, float], float]) -> Cost:
        """One of the two for each figure."""
        return Cost(*(choose(getattr(self, name), getattr(other, name)) for name in self.__slots__))


class Counted:
    """Counts while the block runs, in this thread."""

    def __init__(self) -> None:
        self.calls = self.messages = self.frames = 0
        self._kinds: dict[CodeType, int] = {}

    def __enter__(self) -> Counted:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            kind = self._kinds.get(code)
            if kind is None:
                kind = self._kinds[code] = _kind(code)
            if kind & 1:
                self.calls += 1
            if kind & 2:
                self.messages += 1
            if kind & 4:
                self.frames += 1


def _kind(code: CodeType) -> int:
    """A bit each: counts as a call, as a message, as a frame."""
    path = os.path.realpath(code.co_filename)
    if not path.startswith(ROOT):
        return 0
    file = path.removeprefix(ROOT)
    if file.startswith("testing/simulation/connection") and code.co_qualname.endswith("Connection.send"):
        return 4
    if file.startswith(TOOLS) or code.co_name in COMPREHENSIONS:
        return 0
    accepts = file == "actors/mailbox.py" and code.co_name in MAILBOX
    return 3 if accepts else 1


class SeededRng:
    """Ids and order from a seed."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def token_bytes(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)

    def generator(self) -> random.Random:
        return random.Random(self._random.random())


# -- what runs ---------------------------------------------------------------------------------------------------------


class Numbers(Spout):
    """0, 1, 2, … each with a message id."""

    outputs = "n"

    def __init__(self, count: int) -> None:
        self.count = count
        self.next = 0

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.next == self.count:
            self.collector.finish()
            return
        self.collector.emit((self.next,), self.next)
        self.next += 1

    def fail(self, message_id: Any, failure: Any) -> None:
        raise AssertionError(f"message {message_id} failed, and so what it costs is wrong: {failure}")


class OneByOne(Numbers):
    """The next when the one before is acked, and all work for it is over."""

    config: ClassVar[dict[str, Any]] = {"max_spout_pending": 1}

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.001)
        super().next_tuple()


class Sentences(Numbers):
    """Ten words each, of a hundred."""

    outputs = "line"

    def next_tuple(self) -> None:
        if self.next == self.count:
            self.collector.finish()
            return
        words = [f"w{(self.next * 7 + i * 13) % 100}" for i in range(10)]
        self.collector.emit((" ".join(words),), self.next)
        self.next += 1


@bolt(outputs="word")
def split(line: str) -> Iterator[str]:
    """A function."""
    yield from line.split()


@bolt
def count(word: str) -> None:
    """A function."""


class Split(BasicBolt):
    outputs = "word"

    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["line"].split():
            collector.emit((word,))


class CountWords(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        assert tup["word"]


class SplitBatch(BasicBolt):
    outputs = "word"

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        collector.emit_column([word for line in tuples.column("line") for word in line.split()])


class CountBatch(BasicBolt):
    def execute_batch(self, tuples: Any, collector: Any) -> None:
        assert all(tuples.column("word"))


class SplitRich(Bolt):
    outputs = "word"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        for word in tup["line"].split():
            self.collector.emit((word,), anchors=tup)
        self.collector.ack(tup)


class CountRich(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


class Same(BasicBolt):
    outputs = "n"

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["n"],))


class Last(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        assert tup["n"] >= 0


def words(splits: Any, counts: Any) -> Callable[[int], Topology]:
    """W1: sentences, split and counted; a message is a sentence of ten words."""

    def make(messages: int) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("lines", Sentences(messages))
        builder.set_bolt("split", splits).shuffle_grouping("lines")
        builder.set_bolt("count", counts).fields_grouping("split", "word")
        return builder.create_topology("words")

    return make


def chain(spout: type[Numbers]) -> Callable[[int], Topology]:
    """W3 and W6: three bolts one after the other."""

    def make(messages: int) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("numbers", spout(messages))
        builder.set_bolt("first", Same).shuffle_grouping("numbers")
        builder.set_bolt("second", Same).shuffle_grouping("first")
        builder.set_bolt("third", Last).shuffle_grouping("second")
        return builder.create_topology("chain")

    return make


def windows(messages: int) -> Topology:
    """Rows of a tumbling window of 1,000."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(messages))
    builder.set_bolt("windows", WindowedBolt(Tumbling(1000), Count(), timestamp="n")).shuffle_grouping("numbers")
    return builder.create_topology("windows")


def pair(messages: str) -> Topology:
    """A spout in one worker, a bolt in each of two: every other tuple goes to the other worker."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", OneByOne(int(messages)))
    builder.set_bolt("last", Last, parallelism=2).shuffle_grouping("numbers")
    return builder.create_topology("pair")


# -- measuring ---------------------------------------------------------------------------------------------------------


def counted_here(make: Callable[[int], Topology], messages: int) -> Counted:
    """The topology in one process."""

    async def run() -> Counted:
        async with LocalCluster(rng=SeededRng()) as cluster:
            with Counted() as counted:
                running = await cluster.submit("t", make(messages), {"acker_executors": 1})
                await running.wait_finished(3600)
        return counted

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())


def counted_in_workers(messages: int) -> Counted:
    """The topology `pair` on two simulated workers."""
    found: list[Counted] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backend.importer = lambda _, arguments: pair(*arguments)
        with Counted() as counted:
            running = await cluster.submit(
                "t", "tests.house.calls:pair", {"acker_executors": 1}, arguments=(str(messages),)
            )
            await running.wait_finished(3600)
        found.append(counted)

    with_workers(story, order="fifo")
    return found[0]


PATHS: Final[dict[str, tuple[Callable[[int], Counted], int]]] = {
    "W1, a sentence, functions": (lambda n: counted_here(words(split, count), n), 1024),
    "W1, a sentence, classes": (lambda n: counted_here(words(Split, CountWords), n), 1024),
    "W1, a sentence, batches": (lambda n: counted_here(words(SplitBatch, CountBatch), n), 1024),
    "W1, a sentence, rich bolts": (lambda n: counted_here(words(SplitRich, CountRich), n), 1024),
    "W3, a tuple through three bolts": (lambda n: counted_here(chain(Numbers), n), 1024),
    "W6, one tuple at a time through three bolts": (lambda n: counted_here(chain(OneByOne), n), 100),
    "two workers, half of the tuples to the other": (counted_in_workers, 100),
    "a row of a window": (lambda n: counted_here(windows, n), 1024),
}
"""How to run so many messages, and how many."""


def cost(path: str) -> Cost:
    """What one message of this path costs."""
    run, messages = PATHS[path]
    run(messages)  # what is made once for a process
    once, twice = run(messages), run(2 * messages)

    def each(name: str) -> float:
        return round((getattr(twice, name) - getattr(once, name)) / messages, DIGITS)

    return Cost(each("calls"), each("messages"), each("frames"))


def limits() -> dict[str, Cost]:
    """The figures that are not to be exceeded."""
    return {path: Cost(**figures) for path, figures in json.loads(FIGURES.read_text("utf-8"))["figures"].items()}


def write(found: dict[str, Cost], reason: str | None) -> None:
    """Write lower figures; higher ones only with a reason, which is written, too."""
    kept = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {"figures": {}, "raised": []}
    known = {path: Cost(**figures) for path, figures in kept["figures"].items()}
    for path, now in found.items():
        before = known.get(path, now)
        if reason is not None and (higher := now.higher(before)):
            kept["raised"].append({"path": path, "what": higher, "why": reason})
        new = now if reason is not None else now.merged(before, min)
        kept["figures"][path] = {name: getattr(new, name) for name in Cost.__slots__}
    FIGURES.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; 1 if a figure is higher than it may be."""
    parser = argparse.ArgumentParser("python -m tests.house.calls", description="What one message costs.")
    parser.add_argument("--update", action="store_true", help="write the figures that went down")
    parser.add_argument("--raise", dest="reason", metavar="REASON", help="write all figures; say why some went up")
    given = parser.parse_args(arguments)
    writes = given.update or given.reason is not None
    if writes and sys.version_info[:2] != PYTHON:
        parser.error(f"the figures are those of Python {PYTHON[0]}.{PYTHON[1]}")
    found = {path: cost(path) for path in PATHS}
    known = limits() if FIGURES.exists() else {}
    print("| one message | calls | messages | frames | limit of calls |\n|---|---|---|---|---|")
    for path, now in found.items():
        limit = known.get(path, now)
        print(f"| {path} | {now.calls} | {now.messages} | {now.frames} | {limit.calls} |")
    if writes:
        write(found, given.reason)
        known = limits()
    higher = {path: more for path, now in found.items() if (more := now.higher(known.get(path, now)))}
    for path, more in higher.items():
        print(f"{path}: {'; '.join(more)}", file=sys.stderr)
    return int(bool(higher))


if __name__ == "__main__":
    sys.exit(main())
