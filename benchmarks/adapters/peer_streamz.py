"""streamz does W1: a source, split, flatten, and a sink that counts. Synchronous; no queue, no guarantee.

An item travels alone: `flatten` calls the sink for each. (Emitting lists of sentences that are flattened first is not
faster.)
"""

from __future__ import annotations

from streamz import Stream

from ..cells import Outcome
from ..clocking import Stopwatch
from ..w1 import corpus


def word_count(size: int) -> Outcome:
    """One run."""
    given = corpus(size)
    counts: dict[str, int] = {}

    def count(word: str) -> None:
        counts[word] = counts.get(word, 0) + 1

    source = Stream()
    source.map(str.split).flatten().sink(count)
    with Stopwatch() as watch:
        for sentence in given.sentences:
            source.emit(sentence)
    given.check(counts)
    return given.outcome(watch)
