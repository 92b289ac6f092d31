"""Ids of roots and edges: 64 random bits, never zero, drawn in bulk.

1. They come from the operating system's random source, through the Rng seam: the XOR of a counter's values can be zero
   (1 ^ 2 ^ 3 == 0), and with a guessable generator acks could be forged.
2. Zero is never an id: it means "no root" and "complete".
3. One call to the operating system makes `BULK` ids; that is about ten times cheaper than a call for each.
4. Ids that were drawn do not survive a fork of the process: a forked child must make new sources, or two processes
   would share ids. (aiostorm starts programs instead of forking.)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat, starmap

BULK = 256

_TRIES = 8


class IdSource:
    """A supply of ids for one task. `token_bytes(n)` returns n unguessable bytes.

    `take()`: one id, from 1 to 2**64 - 1. It runs in C, but for one call in `BULK`.
    """

    __slots__ = ("_token_bytes", "take")

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self.take: Callable[[], int] = chain.from_iterable(starmap(self._draw, repeat(()))).__next__

    def _draw(self) -> list[int]:
        for _ in range(_TRIES):
            drawn = [n for n in memoryview(self._token_bytes(8 * BULK)).cast("Q") if n]
            if drawn:
                return drawn[::-1]
        raise RuntimeError(f"the random source returned {8 * BULK} zero bytes {_TRIES} times: it is broken")
