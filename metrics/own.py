"""OwnMetrics: the slots with which a component measures by itself, and what is allowed of them.

    context.metrics.counter(name, labels) ─► checked, and the same slot each time ─► inc(): one addition
                                                         └─ read, when others look ─► Series

1. A slot belongs to a task and outlives the instance of its component. One loop or one thread writes, the loop reads.
2. A name has one kind and the same labels in the whole topology: `Names` is shared by the tasks of a process.
3. The number of series of a task, their labels, and the bytes that all of a process take in a report are bounded: a
   label with ever new values (a user's id) is an error where it is made, not a full memory later.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from ..runtime import AiostormError
from .histogram import Histogram, index_of
from .series import Combine, Series, SeriesKind

MAX_SERIES: Final = 200
"""Of a task."""

MAX_LABELS: Final = 8
MAX_NAME_CHARS: Final = 64
MAX_VALUE_CHARS: Final = 100

MAX_BYTES: Final = 300 * 1024
"""What the series of all tasks in a process may take in a report of a worker, which has one frame."""

RATE_S: Final = 60.0
"""A meter's rate is that of about the last minute."""

_SLOT_BYTES: Final = 40
_HISTOGRAM_BYTES: Final = 1024

_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_SUFFIXES: Final = ("_total", "_bucket", "_count", "_sum", "_created", "_info")
_TAKEN: Final = ("topology", "component", "task", "worker", "le", "quantile")

Labels = tuple[tuple[str, str], ...]


class MetricError(AiostormError, ValueError):
    """A metric that a component wants to have is not allowed; the text says why, and what to do."""


class CounterSlot:
    """See topology.CounterSlot."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, count: int = 1) -> None:
        """Add `count`, 0 or more."""
        if count < 0:
            raise MetricError(f"a counter only grows: inc({count!r}); what also falls is a gauge")
        self.value += count

    def read(self, now_s: float) -> dict[str, Any]:
        """The fields of its Series."""
        return {"value": _number(self.value)}


class GaugeSlot:
    """See topology.GaugeSlot."""

    __slots__ = ("combine", "value")

    def __init__(self, combine: Combine) -> None:
        self.combine = combine
        self.value = 0.0

    def set(self, value: float) -> None:
        """It is this number now."""
        self.value = float(value)

    def add(self, change: float) -> None:
        """It is more by this; less, if negative."""
        self.value += float(change)

    def read(self, now_s: float) -> dict[str, Any]:
        """The fields of its Series."""
        return {"value": self.value, "combine": self.combine}


class MeterSlot:
    """See topology.MeterSlot. The rate is computed when it is read, of what came since it was read before."""

    __slots__ = ("_rate", "_seen", "_seen_s", "value")

    def __init__(self, now_s: float) -> None:
        self.value = self._seen = 0
        self._seen_s = now_s
        self._rate: float | None = None

    def mark(self, count: int = 1) -> None:
        """It has happened `count` times, 0 or more."""
        if count < 0:
            raise MetricError(f"a meter only grows: mark({count!r})")
        self.value += count

    def read(self, now_s: float) -> dict[str, Any]:
        """The fields of its Series."""
        passed_s, value = now_s - self._seen_s, self.value
        if passed_s > 0:
            rate = float(value - self._seen) / passed_s
            before, share = self._rate, -math.expm1(-passed_s / RATE_S)
            self._rate = rate if before is None else before + share * (rate - before)
            self._seen, self._seen_s = value, now_s
        return {"value": _number(value), "rate": self._rate or 0.0}


class HistogramSlot:
    """See topology.HistogramSlot."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """A value, 0 or more, came `count` times."""
        if not (0.0 <= value < math.inf and count >= 0):
            raise MetricError(f"a histogram takes numbers from 0 on, 0 times or more: observe({value!r}, {count!r})")
        index = index_of(value)
        self._counts[index] = self._counts.get(index, 0) + count
        self._total += float(value) * count

    def read(self, now_s: float) -> dict[str, Any]:
        """The fields of its Series."""
        counts = self._counts.copy()  # a thread may be adding to it
        found = Histogram(tuple(sorted((i, int(n)) for i, n in counts.items() if n)), self._total)
        return {"value": found.count, "histogram": found}


S = TypeVar("S")


class Names:
    """The names that the components of one topology use in this process; each has one kind."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[SeriesKind, tuple[str, ...], Combine, str]] = {}
        self._bytes = 0

    def check(self, name: str, kind: SeriesKind, labels: tuple[str, ...], combine: Combine, component: str) -> None:
        """MetricError if the name is used for something else."""
        wanted = kind, labels, combine
        known = self._known.setdefault(name, (*wanted, component))
        if known[:3] != wanted:
            raise MetricError(
                f"metric {name!r} of component {component!r} is {_what(*wanted)}, but component {known[3]!r} uses the "
                f"name for {_what(*known[:3])}: give one of them another name"
            )

    def add_bytes(self, count: int, name: str) -> None:
        """A series more takes so many bytes in a report. MetricError if all take too many."""
        if self._bytes + count > MAX_BYTES:
            raise MetricError(
                f"metric {name!r}: the metrics of the components in this process would take more than {MAX_BYTES:,} "
                "bytes in a report: use fewer labels with fewer values"
            )
        self._bytes += count


class OwnMetrics:
    """The slots of one task. `now_s`: of the monotonic clock, for meters."""

    __slots__ = ("_component", "_names", "_now_s", "_slots")

    def __init__(self, component: str, names: Names, now_s: Callable[[], float]) -> None:
        self._component = component
        self._names = names
        self._now_s = now_s
        self._slots: dict[tuple[str, Labels], tuple[SeriesKind, Any]] = {}

    def counter(self, name: str, labels: Mapping[str, str] | None = None) -> CounterSlot:
        """A counter."""
        return self._slot(name, labels, "counter", CounterSlot)

    def gauge(
        self, name: str, labels: Mapping[str, str] | None = None, *, combine: Literal["sum", "max", "min"] = "sum"
    ) -> GaugeSlot:
        """A gauge."""
        if combine not in ("sum", "max", "min"):
            raise MetricError(f"gauge {name!r}: combine is 'sum', 'max' or 'min', not {combine!r:.50}")
        return self._slot(name, labels, "gauge", lambda: GaugeSlot(combine), combine)

    def meter(self, name: str, labels: Mapping[str, str] | None = None) -> MeterSlot:
        """A meter."""
        return self._slot(name, labels, "meter", lambda: MeterSlot(self._now_s()))

    def histogram(self, name: str, labels: Mapping[str, str] | None = None) -> HistogramSlot:
        """A histogram."""
        return self._slot(name, labels, "histogram", HistogramSlot)

    def read(self) -> tuple[Series, ...]:
        """All of them, at this moment."""
        now_s, slots = self._now_s(), list(self._slots.items())  # a thread may be adding one
        return tuple([Series(name, kind, labels, **slot.read(now_s)) for (name, labels), (kind, slot) in slots])

    def _slot(self, name: str, labels: Any, kind: SeriesKind, make: Callable[[], S], combine: Combine = "sum") -> S:
        pairs = check_labels(name, {} if labels is None else labels)
        self._names.check(name, kind, tuple(key for key, _ in pairs), combine, self._component)
        found = self._slots.get((name, pairs))
        if found is None:
            if len(self._slots) >= MAX_SERIES:
                raise MetricError(
                    f"metric {name!r}: a task of {self._component!r} has {MAX_SERIES} metrics already (each "
                    "combination of label values is one): labels are for a few fixed values, not for ids or keys"
                )
            texts = sum(len(text.encode("utf-8", "replace")) for pair in pairs for text in pair)
            self._names.add_bytes(len(name) + texts + (_HISTOGRAM_BYTES if kind == "histogram" else _SLOT_BYTES), name)
            found = self._slots[name, pairs] = kind, make()
        slot: S = found[1]
        return slot


def check_labels(name: Any, labels: Any) -> Labels:
    """The labels, in order. MetricError if the name or one of them is not allowed."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        rule = f"a letter, then letters, digits and _, at most {MAX_NAME_CHARS}"
        raise MetricError(f"the name of a metric has {rule}: {name!r:.100}")
    if suffix := next((end for end in _SUFFIXES if name.endswith(end)), None):
        raise MetricError(f"metric {name!r}: leave out {suffix}, which is added where it is exported")
    if not isinstance(labels, Mapping):
        raise MetricError(f"metric {name!r}: labels are a mapping of name to value, not {labels!r:.100}")
    if len(labels) > MAX_LABELS:
        raise MetricError(f"metric {name!r}: {len(labels)} labels, at most {MAX_LABELS} are allowed")
    for key, value in labels.items():
        if not isinstance(key, str) or not _NAME.fullmatch(key) or len(key) > MAX_NAME_CHARS or key in _TAKEN:
            raise MetricError(
                f"metric {name!r}: a label has a letter, then letters, digits and _, and is none of "
                f"{', '.join(_TAKEN)}: {key!r:.100}"
            )
        if not isinstance(value, str) or len(value) > MAX_VALUE_CHARS or _is_broken(value):
            raise MetricError(
                f"metric {name!r}: the value of label {key!r} is text of at most {MAX_VALUE_CHARS} characters, not "
                f"{value!r:.120}"
            )
    return tuple(sorted(labels.items()))


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _what(kind: SeriesKind, labels: tuple[str, ...], combine: Combine) -> str:
    """How an error names a kind of metric."""
    text = f"a {kind}" + (f" combined by {combine}" if kind == "gauge" else "")
    return text + (f" with the labels {', '.join(labels)}" if labels else " without labels")


def _number(value: Any) -> float:
    """A plain number: users also add NumPy's."""
    return value if type(value) in (int, float) else float(value)
