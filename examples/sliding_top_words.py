"""The words of the last hour, every half hour: sliding windows by event time, over Python's own standard library.

    aiostorm run examples.sliding_top_words:topology                 the modules of the running Python's library
    aiostorm run examples.sliding_top_words:topology 'docs/*.md'     other files, or globs

      lines ──shuffle──▶ split ×2 ──fields (word)──▶ often ×4 ──global──▶ top
                                    1 h each ½ h, each   │     what the four
                                    task: its own words ─┘     say of one hour

As if a person read the files aloud, ten lines a second: that is when a line *happened*, however fast it is read here. A
window closes when all tasks of `split` are past its end, so the answer does not depend on their speed.

What it shows: a ready-made window without a class, one of its own (`init_state`, `execute`, `purge`) over the results
of the first, watermarks that travel from one to the other, and a stream that ends: then every open window fires.
"""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from glob import glob
from keyword import kwlist
from typing import Any

from aiostorm import Sliding, Topology, TopologyBuilder, Tumbling, Tuple, WindowedBolt, bolt, spout
from aiostorm.windows import TopK, Window

HOUR_MS = 3_600_000
LINE_MS = 100
SHOWN = 5
find_words = re.compile(r"[a-z]\w{3,}").findall
COMMON = {*kwlist, "self", "none", "true", "false"}


def read_aloud(files: list[str]) -> Any:
    """A spout of lines, and when they are said."""

    @spout("line", "at")
    def lines() -> Iterator[tuple[str, int]]:
        at_ms = 0
        for path in files:
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    yield line, at_ms
                    at_ms += LINE_MS

    return lines


@bolt(outputs=("word", "at"))
def split(line: str, at: int) -> Iterator[tuple[str, int]]:
    """The words of a line, with its time. Watermarks go through it by themselves."""
    for word in find_words(line.lower()):
        if word not in COMMON:
            yield word, at


class Top(WindowedBolt):
    """The most frequent words of an hour, out of what each task of `often` has said of it.

    Its rows are results of windows, and happen when those end. All that end within the same half hour are of one hour.
    """

    windows = Tumbling(HOUR_MS // 2)
    timestamp = "end"

    def __init__(self) -> None:
        self.chart: list[tuple[Any, ...]] = []

    def init_state(self, window: Window) -> Counter[str]:
        """Nothing was said yet."""
        return Counter()

    def execute(self, tup: Tuple, state: Counter[str], window: Window) -> None:
        """What one task has said. No word is said by two: the grouping sends equal words to the same task."""
        state.update(dict(tup["result"]))

    def purge(self, state: Counter[str], window: Window) -> None:
        """All tasks have said what they had to say of this hour."""
        best = sorted(state.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN]
        hour = f"{clock(max(0, window.start - HOUR_MS))} to {clock(window.start)}"
        self.chart.append((hour, ", ".join(f"{word} {count}" for word, count in best)))

    def result(self) -> list[tuple[Any, ...]]:
        """For the summary."""
        return self.chart


def clock(ms: int) -> str:
    """Hours and minutes since the beginning."""
    return f"{ms // HOUR_MS:02}:{ms % HOUR_MS // 60_000:02}"


def topology(*patterns: str) -> Topology:
    """Read these files aloud; without any, the modules at the top of the standard library."""
    found = [path for pattern in patterns or (f"{sysconfig.get_path('stdlib')}/*.py",) for path in glob(pattern)]
    if not found:
        raise FileNotFoundError(f"{' '.join(patterns)} matches no file: give files, or globs like 'docs/*.md'")
    builder = TopologyBuilder()
    builder.set_spout("lines", read_aloud(sorted(found)))
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
    often = WindowedBolt(Sliding(HOUR_MS, HOUR_MS // 2), TopK(SHOWN, "word"), timestamp="at")
    builder.set_bolt("often", often, parallelism=4).fields_grouping("split", "word")
    builder.set_bolt("top", Top).global_grouping("often")
    return builder.create_topology("sliding-top-words", summary)


def summary(results: dict[str, list[Any]]) -> dict[str, Any]:
    """What `aiostorm run` prints at the end."""
    (chart,) = results["top"]
    return {"windows": len(chart), "words of each hour": chart}
