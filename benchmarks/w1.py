"""W1, word count: sentences of 10 words, split, counted by key. `size` is sentences, the unit is words.

Input: seed 42, a vocabulary of 10,000 words, drawn Zipf-like (the n-th word with weight 1/n). The same in every Python
from 3.11 on; the digest is in the record.

Oracle: the words are counted as they are drawn, before they are joined to sentences, so it shares no code with what is
measured.

Limit: the same counting as a plain loop over a dict, in a function of its own.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from .cells import Outcome, WrongResultError
from .clocking import Stopwatch

SEED = 42
VOCABULARY = 10_000
WORDS = 10
"""Words of a sentence."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The sentences, and what counting them must give."""

    sentences: list[str]
    expected: Mapping[str, int]
    digest: str

    @property
    def words(self) -> int:
        """How many there are in all."""
        return len(self.sentences) * WORDS

    def check(self, counts: Mapping[str, int]) -> None:
        """WrongResultError unless these are the counts."""
        if dict(counts) != self.expected:
            total = sum(counts.values())
            raise WrongResultError(
                f"counted {total} words, {len(counts)} of them distinct; expected {self.words}, {len(self.expected)}"
            )

    def outcome(self, watch: Stopwatch, latencies_s: Mapping[str, float] | None = None, **seen: Any) -> Outcome:
        """What a checked run is worth."""
        return Outcome(self.words, watch.wall_s, watch.cpu_s, latencies_s or {}, seen={"digest": self.digest, **seen})


@lru_cache(maxsize=2)  # the warm-up's, and the run's
def corpus(sentences: int) -> Corpus:
    """So many sentences, and their counts."""
    rng = random.Random(SEED)
    vocabulary = [f"word{n}" for n in range(VOCABULARY)]
    weights = list(accumulate(1 / (n + 1) for n in range(VOCABULARY)))
    drawn = rng.choices(vocabulary, cum_weights=weights, k=sentences * WORDS)
    lines = [" ".join(drawn[at : at + WORDS]) for at in range(0, len(drawn), WORDS)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return Corpus(lines, dict(Counter(drawn)), digest)


def plain_loop(size: int) -> Outcome:
    """The limit."""
    given = corpus(size)
    with Stopwatch() as watch:
        counts = count(given.sentences)
    given.check(counts)
    return given.outcome(watch)


def count(sentences: list[str]) -> dict[str, int]:
    """What is left of a word count without anything around it."""
    counts: dict[str, int] = {}
    for sentence in sentences:
        for word in sentence.split():
            counts[word] = counts.get(word, 0) + 1
    return counts
