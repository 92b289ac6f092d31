"""Count the words of Python's own standard library, each line at least once.

    aiostorm run examples.word_count:topology                        every .py file of the running Python's library
    aiostorm run examples.word_count:topology README.md 'docs/*.md'  files, directories (their .py files) or globs

      lines ──shuffle──▶ split ×2 ──fields (word)──▶ count ×4

A word is a run of letters, digits and underscores (the regular expression `\\w+`) in the lower-cased line.

What it shows: a spout that ends by itself, a function as a bolt, a bolt that takes whole batches, lines that are
tracked from the file to the last of their words and emitted again by the framework if one fails, and a summary.
"""

from __future__ import annotations

import glob
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    Fields,
    Spout,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    TupleBatch,
    bolt,
)

LINES_PER_CALL = 256
find_words = re.compile(r"\w+").findall


class Lines(Spout):
    """Emits the lines of files. A file that cannot be read is reported and counted, and the others are read."""

    outputs = Fields("line")

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.files = self.lines = self.unreadable = 0

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Start reading."""
        self.collector = collector
        self.unread = self.read()

    def next_tuple(self) -> None:
        """Emit the next lines: a few at a time, so that reading never blocks the event loop for long."""
        emitted = 0
        for message_id, line in islice(self.unread, LINES_PER_CALL):
            self.collector.emit((line,), message_id)
            emitted += 1
        self.lines += emitted
        if not emitted:
            self.collector.finish()

    def read(self) -> Iterator[tuple[tuple[str, int], str]]:
        """Every line of every file, with where it stands as its message id."""
        for path in self.paths:
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    for number, line in enumerate(file, 1):
                        yield (path, number), line
                self.files += 1
            except OSError as error:
                self.unreadable += 1
                self.collector.report_error(error)

    def result(self) -> dict[str, int]:
        """For the summary."""
        return {"files": self.files, "files not readable": self.unreadable, "lines": self.lines}


@bolt(outputs="word")
def split(line: str) -> Iterator[str]:
    """The words of a line."""
    yield from find_words(line.lower())


class Count(BasicBolt):
    """Counts words. The grouping sends equal words to the same task, so no other task counts them too."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute_batch(self, tuples: TupleBatch, collector: BasicCollector) -> None:
        """Count a batch at once."""
        self.counts.update(tuples.column("word"))

    def result(self) -> Counter[str]:
        """For the summary."""
        return self.counts


def topology(*paths: str) -> Topology:
    """Count the words of these files, directories and globs; without any, of the standard library."""
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(find_files(paths or (sysconfig.get_path("stdlib"),))))
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", Count, parallelism=4).fields_grouping("split", "word")
    return builder.create_topology("word-count", summary, Config(max_spout_pending=1024, max_retries=3))


def summary(results: dict[str, list[Any]]) -> dict[str, Any]:
    """What `aiostorm run` prints at the end, from what the tasks of each component have found."""
    counts: Counter[str] = Counter()
    for part in results["count"]:
        counts.update(part)
    totals = {**results["lines"][0], "words": counts.total(), "distinct words": len(counts)}
    frequent = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))  # ties by the alphabet
    return {**totals, "most frequent words": frequent[:20]}


def find_files(patterns: tuple[str, ...]) -> list[str]:
    """The files that are meant, each once. FileNotFoundError names what matches none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if Path(pattern).is_dir():
            matched = [str(path) for path in Path(pattern).rglob("*.py") if is_source(path.relative_to(pattern))]
        else:
            matched = [pattern, *glob.glob(pattern, recursive=True)]
        files = [path for path in sorted(matched) if Path(path).is_file()]
        if not files:
            raise FileNotFoundError(
                f"{pattern!r} matches no file: give a file, a directory with .py files, or a glob like 'docs/**/*.md'"
            )
        found.update(dict.fromkeys(files))
    return list(found)


def is_source(path: Path) -> bool:
    """Is it part of what was meant, or an installed package?"""
    return not {"site-packages", "dist-packages"} & set(path.parts)
