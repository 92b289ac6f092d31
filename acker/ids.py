"""Ids of roots and edges: 64 random bits, never zero, drawn in bulk.

1. They come from the operating system's random source, through the Rng seam: a counter would cancel itself
   (1 ^ 2 ^ 3 == 0) and a guessable generator would let acks be forged.
2. Zero is never given: it is "no root" and "complete".
3. One call to the operating system makes `BULK` ids; that is about ten times cheaper than a call each.
4. Ids that were drawn do not survive a fork of the process: whoever forks makes new sources, or two processes share
   ids. (Ours start programs instead.)
5. The highest bit of a root says whether its tree is of one message (`alone`): such a tree is never split (ledger.py),
   and every task sees that without being told the size of a tree. 63 random bits are enough for a root: it has to be
   rare that two are the same, and nothing more; an ack is forged only by who guesses the 64 bits of an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BULK = 256

_ALONE: Final = 1 << 63

_TRIES = 8


class IdSource:
    """A supply of ids for one task. `token_bytes(n)` gives n unguessable bytes."""

    __slots__ = ("_ids", "_token_bytes")

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._ids: list[int] = []

    def take(self) -> int:
        """One id, from 1 to 2**64 - 1."""
        ids = self._ids
        if not ids:
            self._refill()
        return ids.pop()

    def _refill(self) -> None:
        for _ in range(_TRIES):
            drawn = memoryview(self._token_bytes(8 * BULK)).cast("Q")
            self._ids.extend(n for n in drawn if n)
            if self._ids:
                return
        raise RuntimeError(f"the random source gave {_TRIES} times {8 * BULK} zero bytes: it is broken")


def alone(root: int, like: int = 0, ackers: int = 1) -> int:
    """This root, as that of a tree of one message. It has the acker that the root `like` has, of so many."""
    root |= _ALONE
    if ackers == 1:
        return root
    root += (like - root) % ackers
    return root if root < 1 << 64 else root - ackers


def in_company(root: int) -> int:
    """This root, as that of a tree of several messages."""
    return root & ~_ALONE or 1


def is_alone(root: int) -> bool:
    """Is the tree of this root of one message?"""
    return root >= _ALONE
