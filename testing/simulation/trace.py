"""Trace: every event with its virtual time, and one digest of all of them.

1. Every event is part of the digest; the last `kept` are kept for reading (None: all). Two runs of one seed have the
   same digest, also under another PYTHONHASHSEED.
2. Scheduling is in the digest too (which process ran, and how much), but not in the text: it would only be noise.
3. Event texts contain no ids (object addresses, random roots): they would differ, or mean nothing.
"""

from __future__ import annotations

import hashlib
import reprlib
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

KEPT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    """`source` did `what`; `target` is the receiver, if it was sent. `at_s`: true time since the world's start.

    `kind` is "send" for messages, "fault" for faults, "process" for starts and ends, "outside" for effects outside,
    "lost" for what a fault took. `detail` is for readers only: no part of the digest, because objects may show their
    addresses.
    """

    at_s: float
    kind: str
    source: str
    target: str
    what: str
    detail: Any = None

    def __str__(self) -> str:
        to = f" -> {self.target}" if self.target else ""
        mark = {"fault": "!! ", "lost": "xx ", "process": "-- "}.get(self.kind, "")
        detail = "" if self.detail is None else f" {shown(self.detail)}"
        return f"{self.at_s:12.6f}  {mark}{self.source}{to}: {self.what}{detail}"


_shown = reprlib.Repr()
_shown.maxother = _shown.maxstring = 60


def shown(detail: Any) -> str:
    """A detail in one line, not too long."""
    return _shown.repr(detail).replace("\n", " ")


class Trace:
    """The events of one world."""

    __slots__ = ("_closed", "_digest", "_schedule", "count", "counts", "events")

    def __init__(self, kept: int | None = KEPT) -> None:
        self.events: deque[Event] = deque(maxlen=kept)
        self.count = 0
        self.counts: dict[str, int] = {}
        self._digest = hashlib.blake2b(digest_size=16)
        self._schedule = 0
        self._closed = False

    def close(self) -> None:
        """Later events are not part of it."""
        self._closed = True

    def add(self, at_s: float, kind: str, source: str, what: str, target: str = "", detail: Any = None) -> None:
        """Record an event."""
        if self._closed:
            return
        self.count += 1
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._digest.update(f"{at_s!r} {kind} {source} {target} {what}\n".encode())
        self.events.append(Event(at_s, kind, source, target, what, detail))

    def add_step(self, process: int, handles: int, at_s: float) -> None:
        """Record that a process ran."""
        # Hashes of numbers do not depend on PYTHONHASHSEED.
        self._schedule = hash((self._schedule, process, handles, at_s))

    @property
    def digest(self) -> str:
        """One text for all that has happened so far."""
        whole = self._digest.copy()
        whole.update(str(self._schedule).encode())
        return whole.hexdigest()

    def text(self, last: int | None = None) -> str:
        """The events that were kept (the last ones), a line each."""
        events = list(self.events)
        shown = events if last is None else events[-last:]
        left_out = self.count - len(shown)
        head = [f"  … {left_out:,} events before"] if left_out else []
        return "\n".join([*head, *map(str, shown)])
