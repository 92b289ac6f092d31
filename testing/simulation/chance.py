"""Chance: every random choice of a simulated world, from one seed.

1. Each part draws from its own named stream: how much one part draws does not change what others draw.
2. A stream depends on the seed and its name only, not on PYTHONHASHSEED (a generator seeded with text hashes it with
   SHA-512).
3. User code may call the functions of `random`: `seeded_globals` seeds those for a while.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator


class Chance:
    """The random streams of one seed."""

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, name: str) -> random.Random:
        """A generator of this name; a second call starts it from the beginning."""
        return random.Random(f"aiostorm {self.seed} {name}")


class SeededRng:
    """The Rng seam of a simulated process: ids and shuffles that are the same in every run of a seed."""

    __slots__ = ("_source",)

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def token_bytes(self, size_bytes: int) -> bytes:
        """Bytes for ids."""
        return self._source.randbytes(size_bytes)

    def generator(self) -> random.Random:
        """A generator for order and jitter."""
        return random.Random(self._source.getrandbits(64))


@contextlib.contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """In the block the functions of the module `random` are seeded; afterwards they continue as before."""
    before = random.getstate()
    random.seed(f"aiostorm {seed} random")
    try:
        yield
    finally:
        random.setstate(before)
