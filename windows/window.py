"""Window: from `start`, which is inside, to `end`, which is not.

1. `start` < `end`. Milliseconds since 1970 (before: negative), or counts of rows.
2. Windows are ordered by end, then by start: the order in which they fire.

From: JStorm and Flink, TimeWindow. Sessions that touch do not overlap, but are merged (open_sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from .errors import WindowKeyError

if TYPE_CHECKING:
    from .values import Result, RowKey

K = TypeVar("K")

STEP: Final = 1_000
"""Results made in one step: about a millisecond."""

AT_ONCE: Final = 4_000
"""Keys sorted in one step: about a millisecond."""

_NUMBERS: Final = frozenset({int, float, bool})
_TUPLE: Final = frozenset({tuple})


@dataclass(frozen=True, slots=True)
class Window:
    """[start, end)."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """The size in milliseconds, or in rows."""
        return self.end - self.start

    @property
    def final(self) -> bool:
        """Whether the window has ended. False in `purge` for an early result."""
        return True

    @property
    def revision(self) -> int:
        """0: a result. Greater: a correction of it, in `retract`; a later correction has a greater number."""
        return 0

    def __contains__(self, timestamp: object) -> bool:
        return isinstance(timestamp, int) and self.start <= timestamp < self.end

    def __lt__(self, other: Window) -> bool:
        return (self.end, self.start) < (other.end, other.start)

    def __le__(self, other: Window) -> bool:
        return (self.end, self.start) <= (other.end, other.start)

    def __gt__(self, other: Window) -> bool:
        return other < self

    def __ge__(self, other: Window) -> bool:
        return other <= self

    def overlaps(self, other: Window) -> bool:
        """Whether the windows have a common time."""
        return self.start < other.end and other.start < self.end

    def cover(self, other: Window) -> Window:
        """The smallest window that contains both."""
        return Window(min(self.start, other.start), max(self.end, other.end))

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


class EarlyWindow(Window):
    """A window that has not ended; it equals the final one."""

    __slots__ = ()

    @property
    def final(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return super().__hash__()


class LateWindow(Window):
    """A window in `retract`: it has fired without the late row. It equals the fired one."""

    __slots__ = ("_revision",)

    _revision: int

    def __init__(self, start: int, end: int, revision: int) -> None:
        super().__init__(start, end)
        object.__setattr__(self, "_revision", revision)

    @property
    def revision(self) -> int:
        return self._revision

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return super().__hash__()


class Fired(NamedTuple):
    """A fired window for one key: the result of `purge`, or the error that it raised."""

    window: Window
    key: RowKey
    result: Result
    error: Exception | None = None


class AddResult:
    """The result of adding rows. `late` and `failed` contain places in the batch.

    `plain`: all timestamps are known to be whole milliseconds.
    """

    __slots__ = ("failed", "late", "plain")

    def __init__(self) -> None:
        self.plain = False
        self.late: list[int] = []
        self.failed: list[tuple[int, Exception]] = []

    def __repr__(self) -> str:
        return f"AddResult(late={self.late}, failed={self.failed})"


def has_hash(key: RowKey) -> bool:
    """Whether the key can be a key of a dict."""
    try:
        hash(key)
    except Exception:  # TypeError, or an error of a user's type
        return False
    return True


def is_nan(key: RowKey) -> bool:
    """Whether the key is NaN, or a tuple that contains NaN."""
    return bool(key != key) or (type(key) in _TUPLE and any(part != part for part in key))


def new_key(key: RowKey) -> None:
    """Check a new key. WindowKeyError for NaN, which equals nothing and would never be found again."""
    if is_nan(key):
        raise WindowKeyError(f"the key {key!r:.100} contains NaN, which equals nothing; give such rows another key")


def in_order(keys: Iterable[K]) -> list[K]:
    """Keys in the order of firing: sorted; if they cannot be compared, by type (all numbers are one type)."""
    keys = list(keys)
    try:
        return sorted(keys)  # type: ignore[type-var]
    except Exception:  # TypeError, or an error of a user's type
        return sorted(keys, key=_rank)


def in_steps(keys: list[K], step: int = STEP) -> Iterator[list[K]]:
    """Like `in_order`, in steps (which may be empty): sorting a million keys at once would block the event loop."""
    runs: list[list[RowKey]] = []
    kinds: set[object] = set()
    if len(keys) > AT_ONCE:
        for start in range(0, len(keys), AT_ONCE):
            run = keys[start : start + AT_ONCE]
            kinds.add(_kind(run))
            if None in kinds or len(kinds) > 1:
                break
            runs.append(sorted(run))
            yield []
    ordered = merge(*runs) if len(kinds) == 1 and None not in kinds else iter(in_order(keys))
    while some := list(islice(ordered, step)):
        yield some


def _kind(keys: Sequence[RowKey]) -> object:
    """The common kind of comparable keys; None: unknown."""
    types = set(map(type, keys))
    if types == {tuple} and len(lengths := set(map(len, keys))) == 1:
        kinds = tuple(_kind([key[place] for key in keys]) for place in range(lengths.pop()))
        return None if None in kinds else kinds
    if types <= _NUMBERS:
        return "numbers"
    return types.pop() if types in ({str}, {bytes}) else None


def _rank(key: RowKey) -> tuple[object, ...]:
    if type(key) in _NUMBERS:
        return "int", key
    name = type(key).__qualname__
    if type(key) in _TUPLE:
        return name, tuple(map(_rank, key))
    return (name, key) if type(key) in {str, bytes} else (name, repr(key))
