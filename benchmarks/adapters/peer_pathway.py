"""pathway does W1: sentences from a Python connector, split by a Python function, flattened, grouped by word, counted.

`persistence=True`: input and the state of operators are kept in a folder, with pathway's own default of how often.
pathway has threads of its own for connectors; computation has one (its default).
"""

from __future__ import annotations

import tempfile
from typing import Any

import pathway as pw

from ..cells import Outcome
from ..clocking import Stopwatch
from ..w1 import corpus


class Sentence(pw.Schema):
    """A row."""

    sentence: str


class Sentences(pw.io.python.ConnectorSubject):
    """Gives one sentence after the other; autocommits as the connector does by default."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__()
        self.sentences = sentences

    def run(self) -> None:
        for sentence in self.sentences:
            self.next(sentence=sentence)


@pw.udf(deterministic=True)
def split(sentence: str) -> list[str]:
    """The words of a sentence."""
    return sentence.split()


def word_count(size: int, *, persistence: bool = False) -> Outcome:
    """One run. The graph is global in pathway: it is cleared after each."""
    given = corpus(size)
    counts: dict[str, int] = {}

    def changed(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            counts[row["word"]] = row["count"]

    subject = Sentences(given.sentences)
    sentences = pw.io.python.read(subject, schema=Sentence, name="sentences" if persistence else None)
    words = sentences.select(word=split(pw.this.sentence)).flatten(pw.this.word)
    counted = words.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())
    pw.io.subscribe(counted, on_change=changed)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"monitoring_level": pw.MonitoringLevel.NONE}
        if persistence:
            settings["persistence_config"] = pw.persistence.Config(pw.persistence.Backend.filesystem(folder))
        with Stopwatch() as watch:
            pw.run(**settings)
    pw.internals.parse_graph.G.clear()
    given.check(counts)
    return given.outcome(watch)
