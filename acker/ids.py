"""Ids of roots and edges: 64 random bits, never zero, drawn in bulk.

1. They come from the operating system's random source, through the Rng seam: the XOR of a counter's values can be zero
   (1 ^ 2 ^ 3 == 0), and with a guessable generator acks could be forged.
2. Zero is never an id: it means "no root" and "complete".
3. One call to the operating system makes `BULK` ids; that is about ten times cheaper than a call for each.
4. Ids that were drawn do not survive a fork of the process: a forked child must make new sources, or two processes
   would share ids. (aiostorm starts programs instead of forking.)
5. The highest bit of a root says whether its tree has a single message (`single_root`): such a tree is never split
   (ledger.py), and every task can see that from the root alone. 63 random bits are enough for a root, which only has to
   be unlikely to repeat: to forge an ack, an attacker must guess the 64 bits of an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BULK = 256

_ALONE: Final = 1 << 63

_TRIES = 8


class IdSource:
    """A supply of ids for one task. `token_bytes(n)` returns n unguessable bytes."""

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
        raise RuntimeError(f"the random source returned {8 * BULK} zero bytes {_TRIES} times: it is broken")


def single_root(root: int, like: int = 0, ackers: int = 1) -> int:
    """This root, marked as the root of a single-message tree. Of `ackers` ackers it has the same one as root `like`."""
    root |= _ALONE
    if ackers == 1:
        return root
    root += (like - root) % ackers
    return root if root < 1 << 64 else root - ackers


def shared_root(root: int) -> int:
    """This root, marked as the root of a tree of several messages."""
    return root & ~_ALONE or 1


def is_single_root(root: int) -> bool:
    """Does the tree of this root have a single message?"""
    return root >= _ALONE
