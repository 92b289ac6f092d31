"""How does the cost of a word grow with tasks, keys and messages; and start, memory and idle cost with tasks?

    python -m benchmarks.growth [--quick] [--only hash,tasks,keys,messages,start,idle] [--repeat 3] [--plot]

    sentences (1 task) ─shuffle─► split (s tasks) ─fields─► count (c tasks)          words by tasks, keys, messages
    spout (1 task) ─shuffle─► one (n/2 tasks) ─shuffle─► two (n/2 tasks) [─► three]  start and memory
    100 × (spout that has nothing ─shuffle─► bolt)                                    idle
    stable_hash of texts, one by one and as a column                                  hash

Every figure is of a process of its own, in processor time (start: wall time too), at least once, with one acker, the
lowest of `--repeat` runs, and comes with its ratio to the smallest of its series. Every word count is checked against
a plain count. The plain loop over a dict is measured beside each number of keys: a larger dict costs it cache misses
too. Prints a Markdown table; `--plot` draws docs/images/growth.svg (needs matplotlib).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from aiostorm import BasicBolt, Config, Fields, LocalCluster, Spout, TopologyBuilder, spout

from .adapters.ours_w1 import BatchCount, BatchSplit, function_count, split
from .cells import WrongResultError
from .clocking import Stopwatch, run_in

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURE: Final = ROOT / "docs" / "images" / "growth.svg"
WORDS: Final = 10
"""Words of a sentence."""
STYLES: Final = ("functions", "batches")
BOLTS: Final = {100: 2, 1000: 2, 3000: 3}
"""Tasks of the bolts together → in how many bolts."""


# -- word count --------------------------------------------------------------------------------------------------------


def drawn(keys: int, sentences: int) -> list[str]:
    """Sentences of words that are equally frequent: the hardest case for whatever remembers keys."""
    rng = random.Random(42)
    return [" ".join(f"word{rng.randrange(keys)}" for _ in range(WORDS)) for _ in range(sentences)]


def word_count(style: str, splits: int, counts: int, keys: int, messages: int) -> dict[str, float]:
    """One run: ns of processor time a word, and the plain loop's."""
    part = drawn(keys, min(messages, 100_000))
    expected = Counter(word for sentence in part for word in sentence.split())
    rounds = messages // len(part)
    with Stopwatch() as plain:
        found: dict[str, int] = {}
        for sentence in part:
            for word in sentence.split():
                found[word] = found.get(word, 0) + 1
    if found != expected:
        raise WrongResultError("the plain loop counts wrong")
    tables: list[dict[str, int]] = []

    @spout(outputs="sentence")
    def sentences() -> Iterator[str]:
        for _ in range(rounds):
            yield from part

    def count() -> Any:
        table: dict[str, int] = {}
        tables.append(table)
        return BatchCount(table) if style == "batches" else function_count(table)

    builder = TopologyBuilder()
    builder.set_spout("sentences", sentences)
    builder.set_bolt("split", BatchSplit if style == "batches" else split, splits).shuffle_grouping("sentences")
    builder.set_bolt("count", count, counts).fields_grouping("split", "word")
    topology = builder.create_topology()

    async def run() -> float:
        async with LocalCluster() as cluster:
            running = await cluster.submit("growth", topology, Config(message_timeout_s=3600.0))
            with Stopwatch() as watch:
                await running.wait_finished()
            if running.metrics()["sentences"].acked != rounds * len(part):
                raise WrongResultError("not every sentence was acked, or one twice")
            return watch.cpu_s

    cpu_s = run_in("uvloop", run())
    merged: Counter[str] = Counter()
    for table in tables:
        merged.update(table)
    if sum(map(len, tables)) != len(merged) or merged != Counter({w: n * rounds for w, n in expected.items()}):
        raise WrongResultError("the words are counted wrong")
    words = len(part) * WORDS
    return {"ns_a_word": cpu_s / (words * rounds) * 1e9, "plain_ns_a_word": plain.cpu_s / words * 1e9}


# -- start and idle ----------------------------------------------------------------------------------------------------


class Silent(Spout):
    outputs = Fields("n")

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        return


class Pass(BasicBolt):
    outputs = Fields("n")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


def _chain(tasks: int, bolts: int) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("spout", Silent)
    before = "spout"
    for number in range(bolts):
        builder.set_bolt(f"bolt{number}", Pass, tasks // bolts).shuffle_grouping(before)
        before = f"bolt{number}"
    return builder.create_topology()


def start(tasks: int, bolts: int, traced: str) -> dict[str, float]:
    """Wall and processor time from the submit until all spouts are open; with `traced`, what is allocated then."""
    topology = _chain(tasks, bolts)

    async def run() -> dict[str, float]:
        async with LocalCluster() as cluster:
            await (await cluster.submit("warm", _chain(2, 2))).kill(0)
            gc.collect()
            if traced == "memory":
                tracemalloc.start()
            with Stopwatch() as watch:
                running = await cluster.submit("growth", topology)
            found = {"start_s": watch.wall_s, "start_cpu_s": watch.cpu_s}
            if traced == "memory":
                gc.collect()
                found = {"kb_a_task": tracemalloc.get_traced_memory()[0] / tasks / 1024}
                tracemalloc.stop()
            await running.kill(0)
            return found

    found: dict[str, float] = run_in("uvloop", run())
    return found


def hashes(length: int, count: int) -> dict[str, float]:
    """ns of processor time for the hash of a new text of so many characters: alone, in a batch, in an Arrow column."""
    from aiostorm.topology.column_keys import hash_column, pa
    from aiostorm.topology.keys import value_hash, value_hashes

    texts = [f"{number:0{length}d}" for number in range(count)]
    column = pa.array(texts)
    with Stopwatch() as alone:
        one_by_one = [value_hash(text) for text in texts]
    with Stopwatch() as batch:
        together = value_hashes(texts)
    with Stopwatch() as columns:
        in_column = hash_column(column)
    if not one_by_one == together == in_column.tolist():
        raise WrongResultError("rows and columns have different hashes")
    measured = {"ns_alone": alone, "ns_in_a_batch": batch, "ns_in_a_column": columns}
    return {name: watch.cpu_s / count * 1e9 for name, watch in measured.items()}


def idle(topologies: int, seconds: float) -> dict[str, float]:
    """The share of a core that so many topologies take which have nothing to do."""

    async def run() -> dict[str, float]:
        async with LocalCluster() as cluster:
            for number in range(topologies):
                await cluster.submit(f"idle{number}", _chain(1, 1))
            await asyncio.sleep(5.0)  # they fall asleep
            with Stopwatch() as watch:
                await asyncio.sleep(seconds)
            return {"percent_of_a_core": watch.cpu_s / watch.wall_s * 100}

    found: dict[str, float] = run_in("uvloop", run())
    return found


# -- the whole ---------------------------------------------------------------------------------------------------------

MEASURES: Final[dict[str, Callable[..., dict[str, float]]]] = {
    "words": word_count,
    "start": start,
    "idle": idle,
    "hash": hashes,
}


def one(measure: str, *arguments: Any, repeat: int = 1) -> dict[str, float]:
    """The lowest of some runs, each in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", "--one", json.dumps([measure, *arguments])]
    runs = []
    for _ in range(repeat):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WrongResultError(f"{measure}{arguments}: {done.stderr[-2000:]}")
        runs.append(json.loads(done.stdout))
    return {name: min(run[name] for run in runs) for name in runs[0]}


def rows(only: set[str], quick: bool, repeat: int) -> Iterator[tuple[str, str, float, dict[str, float]]]:
    """(series, figure, place on the axis, what was measured)."""
    messages = 10_000 if quick else 50_000
    pairs = ((2, 4), (10, 10), (50, 50)) if quick else ((2, 4), (10, 10), (50, 50), (250, 250))
    if "hash" in only:
        for length in (8, 16, 40):
            yield "hash of a text", f"{length} characters", length, one("hash", length, 10_000, repeat=repeat)
    if "tasks" in only:
        for style in STYLES:
            for s, c in pairs:
                yield (
                    f"{style}, by tasks",
                    f"{s} + {c}",
                    s + c,
                    one("words", style, s, c, 10_000, messages, repeat=repeat),
                )
    if "keys" in only:
        for style in STYLES:
            for keys in (10**3, 10**4, 10**5, 10**6):
                found = one("words", style, 2, 4, keys, 20_000 if quick else 200_000, repeat=repeat)
                yield f"{style}, by keys", f"{keys:,}", keys, found
    if "messages" in only:
        for messages in (10**4, 10**5) if quick else (10**5, 10**6, 10**7):
            found = one("words", "functions", 2, 4, 10_000, messages, repeat=1 if messages > 10**6 else repeat)
            yield "functions, by messages", f"{messages:,}", messages, found
    if "start" in only:
        for tasks, bolts in [*BOLTS.items()][: 1 if quick else None]:
            found = one("start", tasks, bolts, "", repeat=repeat) | one("start", tasks, bolts, "memory")
            yield "start", f"{tasks:,} in {bolts} bolts", tasks, found
    if "idle" in only:
        yield "idle", "100 topologies", 100, one("idle", 100, 10.0 if quick else 30.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="how cost grows")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="hash,tasks,keys,messages,start,idle")
    parser.add_argument("--quick", action="store_true", help="fewer messages and no more than 100 tasks")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--plot", action="store_true", help=f"draw {PICTURE.relative_to(ROOT)}")
    given = parser.parse_args()
    if given.one:
        measure, *arguments = json.loads(given.one)
        print(json.dumps(MEASURES[measure](*arguments)))
        return
    print("| series | at | measured | to the first |\n|---|---|---|---|")
    firsts: dict[str, float] = {}
    series: dict[str, list[tuple[float, float]]] = {}
    for name, at, place, found in rows(set(given.only.split(",")), given.quick, given.repeat):
        leading = next(iter(found.values()))
        ratio = leading / firsts.setdefault(name, leading)
        series.setdefault(name, []).append((place, leading))
        measured = ", ".join(f"{what.replace('_', ' ')} {value:,.2f}" for what, value in found.items())
        print(f"| {name} | {at} | {measured} | {ratio:.2f} |", flush=True)
    if given.plot:
        from .growth_plot import draw

        draw(series, PICTURE)


if __name__ == "__main__":
    main()
