"""Rng: the one place that draws random numbers.

1. Ids come from the operating system's random source: they cannot be guessed, and never repeat in practice. A generator
   whose state can be recovered would let anyone who sees ids forge acks (reliability: STORM ids, storm#8989).
2. Order and jitter come from a `random.Random` each user seeds from here, so that a test can fix it.
"""

from __future__ import annotations

import os
import random
from typing import Protocol


class Rng(Protocol):
    """What the rest of the system may ask of chance."""

    def token_bytes(self, size_bytes: int) -> bytes:
        """Unguessable bytes, for ids and secrets."""
        ...

    def generator(self) -> random.Random:
        """A generator of one's own, for order and jitter: never for ids or secrets."""
        ...


class SystemRng:
    """The operating system's random source."""

    __slots__ = ()

    def token_bytes(self, size_bytes: int) -> bytes:
        """Unguessable bytes, for ids and secrets."""
        return os.urandom(size_bytes)

    def generator(self) -> random.Random:
        """A freshly seeded generator."""
        return random.Random(int.from_bytes(os.urandom(16), "little"))  # noqa: S311 - order and jitter only
