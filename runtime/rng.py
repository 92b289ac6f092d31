"""Rng: the only place that draws random numbers.

1. Ids come from the operating system's random source: they cannot be guessed, and in practice never repeat. With a
   generator whose state can be recovered, an attacker with some ids could forge acks (reliability: STORM ids,
   storm#8989).
2. Order and jitter come from a `random.Random` that each user seeds from here, so that a test can control it.
"""

from __future__ import annotations

import os
import random
from typing import Protocol


class Rng(Protocol):
    """Randomness, as the rest of the system uses it."""

    def token_bytes(self, size_bytes: int) -> bytes:
        """Unguessable bytes, for ids and secrets."""
        ...

    def generator(self) -> random.Random:
        """A new generator for order and jitter: never for ids or secrets."""
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
