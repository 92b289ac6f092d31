"""Machine: what a bolt with windows drives, whichever windows it has.

    add_rows(rows) ─► by count: fire ─► results              advance(watermark) ─► by time: results that are due

1. Windows by count fire with their rows: time changes nothing for them, except that time may end.
2. Windows by time fire when the watermark has passed them: `next_fire_ms` is where the next of them fires.
3. Early results come with the row that makes them due, or when the clock is due (`early`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from .kept_rows import WindowRows
from .window import AddResult, Fired, Window

if TYPE_CHECKING:
    from .early import EarlyWindows
    from .frozen import Dump, Frozen
    from .rows import ReadRows
    from .values import Row, Value

R_co = TypeVar("R_co", covariant=True)


class Machine(Protocol[R_co]):
    """The windows of one task. R_co is the type of a result."""

    @property
    def watermark(self) -> int | None:
        """How far time has come; None: not known, or of no account."""
        ...

    @property
    def next_fire_ms(self) -> int | None:
        """The watermark before which nothing fires; None: no window is open, or windows fire with their rows."""
        ...

    def fire(self) -> Iterator[R_co]:
        """The results that are due and were not taken yet."""
        ...

    def advance(self, watermark_ms: int) -> Iterator[R_co]:
        """The results that are due at this watermark. Those not taken from the iterator are first in the next one."""
        ...

    def work(self) -> bool:
        """Do about a millisecond of the work before the next result. False: there is no such work."""
        ...

    def windows_of(self, timestamp: object) -> list[Window]:
        """The windows of a single row with this time, whether they have fired or not."""
        ...

    def dump(self, number: int | None = None, since: int | None = None) -> Dump:
        """The state, or with `since` what has changed since the dump of that number (dumps.py)."""
        ...

    def freeze(self, number: int | None = None, since: int | None = None) -> Frozen:
        """What `dump` would give, to be read in parts (frozen.py)."""
        ...

    @property
    def saved_rows(self) -> int:
        """How many rows a full dump has."""
        ...

    def changed_since(self, number: int) -> int | None:
        """About how many rows have changed since this dump; None: it is not known, and only a full dump is possible."""
        ...

    def committed(self, number: int) -> None:
        """This dump is stored: no dump builds on an earlier one any more."""
        ...

    def aborted(self, number: int) -> None:
        """This dump was not stored, and nothing builds on it."""
        ...

    def load(self, dump: Dump) -> None:
        """Load a full dump into this machine, which is new. WindowStateError if it does not fit."""
        ...


class IncrementalMachine(Machine[Fired], Protocol):
    """Windows that keep states."""

    def add_rows(self, rows: ReadRows, emit: Callable[[list[Fired]], None]) -> AddResult:
        """Add rows. `emit` is called with the early results that one of the rows makes due, before the next row."""
        ...

    @property
    def states(self) -> int:
        """The number of states."""
        ...

    @property
    def early(self) -> EarlyWindows | None:
        """The windows with early results, if there are early results."""
        ...


class BufferedMachine(Machine[WindowRows], Protocol):
    """Windows that keep their rows."""

    def add_rows(self, rows: ReadRows) -> AddResult:
        """Add rows."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows that are kept."""
        ...

    def released(self) -> list[Row]:
        """Rows whose last window has fired since the last call, without rows that were loaded: they are done."""
        ...

    def convert_rows(self, pack: Callable[[Row], Value], unpack: Callable[[Value], Row]) -> None:
        """Rows are dumped as what `pack` makes of them, and loaded by `unpack`. Without it: as they are."""
        ...
