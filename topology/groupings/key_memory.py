"""Key memory: remembers the targets of keys while that is cheaper than hashing the keys again.

    keys ──▶ the young generation: one dict look-up a key
               └─ not there ──▶ the old generation ──▶ computed: one by one, or all of a batch where they are many

1. It keeps at most `limit_keys` keys (at least two) and 8 MiB of keys, and no key beyond 1 KiB. Half of that is the
   young generation: when it is full it becomes the old generation, which replaces the earlier one; a key that is used
   again becomes young again. So keys in frequent use are never computed again, and the memory is never emptied at once.
2. Keys that seldom repeat are not worth remembering: a miss in a dict costs more than the hash. If more than a quarter
   of a generation's look-ups had to be computed (three quarters for the first generation, in which every key is new),
   the memory is emptied and all keys are computed for a while; then it tries again.
3. Forgetting changes nothing but speed: `find` is a function of the key.

A cache of two generations: the clock algorithm with one bit, kept by the dict that a key is in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from ..keys import size_bytes, stable_hash, value_hash, value_hashes
from ..values import Key

LONG_KEY_BYTES: Final = 1024
MEMORY_BYTES: Final = 8 * 2**20
WORTHLESS: Final = 0.25
"""If a larger share of look-ups is computed, remembering costs more than it saves."""
WORTHLESS_AT_FIRST: Final = 0.75
ROUNDS_WITHOUT: Final = 16
"""It then computes this many times `limit_keys` look-ups before it tries again."""

MANY: Final = 1 / 16
"""If a larger share of a batch is unknown, the next batch is looked up, and computed, as a whole."""

_TEXT: Final = {str}

Found = TypeVar("Found")
"""What is remembered for a key: the index of a target, or two targets."""


class KeyMemory(Generic[Found]):
    """`compute` turns hashes into the values that are remembered for their keys."""

    __slots__ = (
        "_bulk",
        "_compute",
        "_computed",
        "_full",
        "_limit_bytes",
        "_limit_keys",
        "_looked_up",
        "_old",
        "_single",
        "_without",
        "_young",
        "_young_bytes",
    )

    def __init__(self, compute: Callable[[list[int]], list[Found]], limit_keys: int, *, single: bool) -> None:
        self._compute = compute
        self._limit_keys = max(1, limit_keys // 2)
        self._limit_bytes = MEMORY_BYTES // 2
        self._single = single
        self._young: dict[Key, Found] = _Generation(self)
        self._old: dict[Key, Found] = {}
        self._young_bytes = 0
        self._looked_up = 0
        self._computed = 0
        self._without = 0
        self._bulk = True
        self._full = False

    def __len__(self) -> int:
        """The number of remembered keys."""
        return len(self._young.keys() | self._old.keys())

    def find(self, keys: Sequence[Key]) -> list[Found]:
        """The value of each key. TypeError or UnhashableKeyError if a key has no hash."""
        self._looked_up += len(keys)
        if self._bulk:
            return self._find_together(keys)
        computed = self._computed
        found = list(map(self._young.__getitem__, keys))
        self._bulk = self._computed - computed > len(keys) * MANY
        if self._full:
            self._turn()
        return found

    def find_one(self, key: Key) -> Found:
        """The value of a key."""
        self._looked_up += 1
        found = self._young[key]
        if self._full:
            self._turn()
        return found

    def learn(self, key: Key) -> Found:
        """The value of a key that is not young. (Called by the young generation.)"""
        found = self._old.get(key)
        if found is None:
            self._computed += 1
            found = self._compute([value_hash(key) if self._single else stable_hash(key)])[0]
        if self._without > 0:
            self._without -= 1
            return found
        size = len(key) if type(key) is str else size_bytes(key)
        if size <= LONG_KEY_BYTES:
            if len(self._young) >= self._limit_keys or self._young_bytes + size > self._limit_bytes:
                self._full = True  # replaced only after the whole batch has been looked up
            else:
                self._young[key] = found
                self._young_bytes += size
        return found

    def _find_together(self, keys: Sequence[Key]) -> list[Found]:
        if self._without > 0:
            self._without -= len(keys)
            if set(map(type, keys)) != _TEXT:
                list(map(hash, keys))  # an unhashable key is an error here too
            return self._computed_for(keys)
        young = list(map(self._young.get, keys))
        missing = dict.fromkeys([key for key, place in zip(keys, young, strict=True) if place is None])
        old = self._old
        known = {key: old[key] for key in missing if key in old} if old else {}
        unknown = [key for key in missing if key not in known] if known else list(missing)
        if unknown:
            self._computed += len(unknown)
            known.update(zip(unknown, self._computed_for(unknown), strict=True))
        found = [known[key] if place is None else place for key, place in zip(keys, young, strict=True)]
        self._bulk = len(missing) > len(keys) * MANY
        if known:
            self._remember(known)
        return found

    def _computed_for(self, keys: Sequence[Key]) -> list[Found]:
        return self._compute(value_hashes(keys) if self._single else list(map(stable_hash, keys)))

    def _remember(self, known: dict[Key, Found]) -> None:
        sizes = list(map(len if set(map(type, known)) == _TEXT else size_bytes, known))
        if max(sizes) > LONG_KEY_BYTES or len(known) > self._limit_keys:
            short = [key for key, size in zip(known, sizes, strict=True) if size <= LONG_KEY_BYTES]
            known = {key: known[key] for key in short[: self._limit_keys]}
            sizes = list(map(size_bytes, known))
        size = sum(sizes)
        if len(self._young) + len(known) > self._limit_keys or self._young_bytes + size > self._limit_bytes:
            self._turn()
        self._young.update(known)
        self._young_bytes += size

    def _turn(self) -> None:
        """The young generation is full."""
        worthless = WORTHLESS if self._old else WORTHLESS_AT_FIRST
        if self._computed > worthless * self._looked_up:
            self._old = {}
            self._without = ROUNDS_WITHOUT * 2 * self._limit_keys
        else:
            self._old = self._young
        self._young = _Generation(self)
        self._full = False
        self._young_bytes = self._looked_up = self._computed = 0


class _Generation(dict[Key, Found]):
    """The young keys. Only a missing key costs a Python call."""

    __slots__ = ("_memory",)

    def __init__(self, memory: KeyMemory[Found]) -> None:
        super().__init__()
        self._memory = memory

    def __missing__(self, key: Key) -> Found:
        return self._memory.learn(key)
