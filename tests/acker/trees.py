"""Tuple trees as the ledger receives them: frames, each with the edges that it makes and is done with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st


@dataclass
class Frame:
    """What one task reports of one turn. Frame 0 is the INIT: it is done with nothing."""

    edges: set[int] = field(default_factory=set)

    @property
    def xor(self) -> int:
        """What really goes to the ledger."""
        folded = 0
        for edge in self.edges:
            folded ^= edge
        return folded


@dataclass
class Tree:
    """One root and all its frames."""

    root: int
    frames: list[Frame]


def ids(seed: int) -> random.Random:
    """A source of 64-bit ids. Hypothesis draws the seed, not the ids: it prefers small numbers, and 1 ^ 2 ^ 3 == 0."""
    return random.Random(seed)


def new_id(source: random.Random) -> int:
    """Not zero; distinct in practice."""
    return source.getrandbits(64) or 1


def tree(parents: Sequence[Sequence[int]], source: random.Random) -> Tree:
    """`parents[i]`: the earlier frames whose tuples frame i + 1 executed in its turn, one segment each."""
    frames = [Frame() for _ in range(len(parents) + 1)]
    for child, made_by in enumerate(parents, 1):
        for maker in made_by:
            edge = new_id(source)
            frames[maker].edges ^= {edge}
            frames[child].edges ^= {edge}
    return Tree(new_id(source), frames)


@st.composite
def shapes(draw: st.DrawFn, max_frames: int = 8) -> list[list[int]]:
    """Parents of each frame: fan-out, chains, diamonds, several segments of one root in one turn."""
    count = draw(st.integers(0, max_frames - 1))
    return [
        draw(st.lists(st.integers(0, child - 1), min_size=1, max_size=3))  # the same maker twice: two segments
        for child in range(1, count + 1)
    ]
