"""Bolts with windows, as a user declares them. The executors in tasks run them.

    WindowedBolt(Tumbling(60_000), Sum("amount"), key="user", timestamp="at")         ready made
    class Average(WindowedBolt):      init_state, execute, merge, purge               JStorm's way: states
    class Totals(BufferedWindowBolt): execute(window)                                 Storm's way: the tuples

1. Settings are class attributes or arguments; arguments win (keywords.py has their names and types).
2. Every error that can be found before the topology runs is reported when it is built, with the field concerned.
3. What a method returns is emitted: None is nothing, a tuple is a row, any other iterable is rows, and on a stream of
   one field anything else is a value.
4. Methods of a WindowedBolt are `def`, not `async def`: windows fire within the task's turn, many keys at once.

From: JStorm, BaseWindowedBolt (incremental) and Retractor; Storm, BaseWindowedBolt (buffered).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Unpack

from ..topology import (
    DEFAULT_STREAM,
    BoltCollector,
    Fields,
    LaterRows,
    Outputs,
    StreamId,
    TimeRole,
    TopologyContext,
    Tuple,
    Windowed,
    Windowing,
    WindowKey,
)
from .aggregates import Aggregate
from .assigners import Counts, Mixed, Session, Sliding, Time
from .building import buffered_windows, count_windows, early_windows, time_windows
from .errors import WindowError
from .keywords import WindowSettings, given_settings
from .late import LatePolicy
from .problems import (
    LATE_FIELDS,
    TUPLE,
    Given,
    accepts,
    wrong_aggregate,
    wrong_early,
    wrong_key,
    wrong_late,
    wrong_methods,
    wrong_results,
    wrong_settings,
    wrong_states,
    wrong_times,
    wrong_timestamp,
    wrong_windows,
)
from .row_time import RowTime
from .rows import Key, RowReader, Timestamp, shared_by
from .watermarks import WatermarkPolicy

if TYPE_CHECKING:
    from .early import Each, Every
    from .kept_rows import WindowRows
    from .machine import BufferedMachine, IncrementalMachine
    from .settings import TimeSettings
    from .values import Returned, Setting, State, Value
    from .window import Window

Windows = Sliding | Session | Counts | Mixed

FUNCTIONS: Final[Mapping[str, Given]] = {"key": TUPLE, "timestamp": TUPLE, "generator": ()}
"""Settings that may be functions, and their arguments."""


class WindowBolt(Windowed):
    """The settings that all bolts with windows share. Derive from WindowedBolt or BufferedWindowBolt.

    `windows`: Tumbling, Sliding, Session, Counts, or Mixed (buffered only). `key`: a field, several fields, or a
    function of the Tuple; each key has its own windows (None: the task has one set). `timestamp`: a field or a function
    of the Tuple that gives the time of the event, in milliseconds since 1970 or as a datetime with a zone (required for
    windows by event time). Late tuples are dropped and counted, or go to the stream `late_stream` or to `retract`; all
    are acked.

    Time settings (milliseconds; None: the value of the config): a watermark is `lag_ms` behind the greatest timestamp
    of an input task, and is updated every `interval_ms`; `generator` makes another generator for each input task. One
    tuple advances it by at most `max_advance_ms`. Windows do not wait for an input task that is silent for
    `idle_timeout_ms`. 0 turns these two off. When all input tasks are silent, windows wait until one sends again; with
    `fire_when_idle` the open windows fire, and rows that arrive for them later are late. Windows fire
    `allowed_lateness_ms` after their end. `policy` (and `ratio`): which of the input tasks decide.
    """

    windows: ClassVar[Setting] = None
    key: ClassVar[Setting] = None
    timestamp: ClassVar[Setting] = None
    lag_ms: ClassVar[int | None] = None
    interval_ms: ClassVar[int | None] = None
    max_advance_ms: ClassVar[int | None] = None
    idle_timeout_ms: ClassVar[int | None] = None
    allowed_lateness_ms: ClassVar[int] = 0
    late: ClassVar[Setting] = LatePolicy.DROP
    late_stream: ClassVar[str] = "late"
    policy: ClassVar[WatermarkPolicy] = WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP
    ratio: ClassVar[float] = 0.9
    generator: ClassVar[Setting] = None
    max_states: ClassVar[int | None] = None
    fire_when_idle: ClassVar[bool] = False
    takes: ClassVar[Mapping[str, Given]] = {"retract": ("tup", "windows")}

    def __init_subclass__(cls, **keywords: object) -> None:
        """Let a setting that is a function be written without `self`: `timestamp = lambda tup: …`."""
        super().__init_subclass__(**keywords)
        for name, given in FUNCTIONS.items():
            function = inspect.getattr_static(cls, name)
            if isinstance(function, FunctionType) and accepts(function, given) and not _takes_self(function):
                setattr(cls, name, staticmethod(function))

    def __init__(self, windows: Windows | None = None, **settings: Unpack[WindowSettings]) -> None:
        for name, value in given_settings(self, settings).items():
            setattr(self, name, value)
        if windows is not None:
            self.windows = windows  # type: ignore[misc] # of this instance, not the class

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> Returned:
        """Called once before anything else, and again after a restart. What `collector` emits here is not anchored.

        Tuples of incremental windows are acked for you; a tuple whose `execute` raises fails.
        """

    def retract(self, tup: Tuple, windows: Sequence[Window]) -> Returned:
        """With LatePolicy.RETRACT: called with a late tuple and the windows that have fired without it.

        The returned rows are emitted, anchored to the tuple. An error fails the tuple.
        """
        raise NotImplementedError(f"{type(self).__name__} must define retract")

    def cleanup(self) -> Returned:
        """Called once at the end (not on kill -9)."""

    @property
    def time(self) -> Time:
        """The clock of its windows."""
        return getattr(self.windows, "time", Time.PROCESSING)

    @property
    def by_count(self) -> bool:
        """Whether its windows are counted in rows."""
        return isinstance(self.windows, Counts)

    @property
    def fires_after_ms(self) -> int:
        """How long after its end a window fires: a session also waits for rows at its end, which extend it."""
        return self.allowed_lateness_ms + isinstance(self.windows, Session)

    @property
    def follows_rows(self) -> bool:
        """Whether the timestamps of its rows advance its time."""
        return not self.by_count and self.time is not Time.PROCESSING

    @property
    def time_role(self) -> TimeRole:
        if self.by_count:
            windowing = Windowing.COUNTS
        else:
            windowing = Windowing.CLOCK if self.time is Time.PROCESSING else Windowing.EVENTS
        by_rows = windowing is Windowing.EVENTS and self.time is Time.EVENT and self.timestamp is not None
        return TimeRole(
            windowing,
            stamped=windowing is Windowing.EVENTS and self.time is Time.INGESTION,
            follow=RowTime(self) if by_rows and self.generator is None else None,
            key=self.window_key,
        )

    @property
    def window_key(self) -> WindowKey:
        """Which rows share windows."""
        return shared_by(self.key)

    def all_outputs(self, inputs: Mapping[StreamId, Fields] | None = None) -> Outputs:
        """The declared outputs and the late stream."""
        declared = self.outputs
        if self.late is not LatePolicy.STREAM:
            return declared
        streams: dict[str, Setting] = {}
        if isinstance(declared, Mapping):
            streams.update(declared)
        elif declared is not None:
            streams[DEFAULT_STREAM] = declared
        return {**streams, self.late_stream: LATE_FIELDS}

    def problems(self, inputs: Mapping[StreamId, Fields]) -> list[str]:
        found = [
            *wrong_windows(self),
            *wrong_methods(self, self.takes),
            *wrong_late(self),
            *wrong_key(self.key, inputs),
            *wrong_timestamp(self, inputs),
        ]
        return found + wrong_settings(self, None if found else self.check)

    def defines(self, method: str) -> bool:
        """Whether the bolt defines a method itself, and does not inherit it from this module."""
        owner = next(cls for cls in type(self).__mro__ if method in vars(cls))
        return method in vars(self) or owner not in (WindowBolt, WindowedBolt, BufferedWindowBolt)

    def check(self, settings: TimeSettings) -> None:
        """Raise WindowError if its machine cannot be made."""
        raise WindowError(f"{type(self).__name__} is no bolt yet: derive from WindowedBolt or BufferedWindowBolt")


class WindowedBolt(WindowBolt):
    """Incremental windows: each row changes the state of its windows, and is not kept.

    With an aggregate it emits a row for each key and window: the fields of the key ("key" if a function makes it),
    "result" (or a field for each name of a Combined), "start" and "end". Or derive from it, and write `init_state`,
    `execute` and `purge`; with `merge`, sliding windows share their work, and sessions are possible.

    With `early`, Every(ms) or Each(rows), windows by time also emit results before they end: rows of a ready-made
    aggregate then have one more field, `final`; in `purge` it is `window.final`. With `times="datetime"` the "start"
    and "end" of windows by time are datetimes in UTC instead of milliseconds since 1970.
    """

    aggregate: ClassVar[Setting] = None
    early: ClassVar[Setting] = None
    times: ClassVar[Setting] = "ms"
    takes: ClassVar[Mapping[str, Given]] = {
        **WindowBolt.takes,
        "init_state": ("window",),
        "execute": ("tup", "state", "window"),
        "merge": ("first", "second"),
    }

    def __init__(
        self,
        windows: Windows | None = None,
        aggregate: Aggregate | None = None,
        *,
        early: Every | Each | None = None,
        times: Literal["ms", "datetime"] | None = None,
        **settings: Unpack[WindowSettings],
    ) -> None:
        super().__init__(windows, **settings)
        if times is not None:
            self.times = times  # type: ignore[misc] # likewise
        if aggregate is not None:
            self.aggregate = aggregate  # type: ignore[misc] # of this instance, not the class
        if early is not None:
            self.early = early  # type: ignore[misc] # likewise
        if isinstance(self.aggregate, Aggregate) and self.outputs is None and not wrong_key(self.key, {}):
            names = self.result_names()
            if not wrong_results(names, None):
                self.outputs = Fields(*names)  # type: ignore[misc]

    def init_state(self, window: Window) -> State:
        """The state of an empty window; never None."""
        raise NotImplementedError(f"{type(self).__name__} must define init_state(window)")

    def execute(self, tup: Tuple, state: State, window: Window) -> State:
        """Add a row. Returns the next state, or None if `state` itself was changed."""
        raise NotImplementedError(f"{type(self).__name__} must define execute(tup, state, window)")

    def merge(self, first: State, second: State) -> State:
        """One state made of two, which stay unchanged: `first` is of the earlier rows. Optional.

        Sliding windows then share slices, and `window` in `init_state` and `execute` is a slice.
        """
        raise NotImplementedError(f"{type(self).__name__} has no merge(first, second)")

    def pack_state(self, state: State) -> Value:
        """A state as a value that can be sent to another process, for a dump of the windows; never None. Optional."""
        return state

    def unpack_state(self, value: Value) -> State:
        """The state of which `pack_state` has made this value; never None."""
        return value

    def purge(self, *given: State, **_: State) -> Returned:  # of any signature, for type checkers
        """Called when the window fires or emits an early result. What it returns is emitted. It must change nothing.

        Define it as `purge(state, window)` or as `purge(state, window, key)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define purge(state, window)")

    @property
    def merges(self) -> bool:
        """Whether it defines `merge`."""
        return self.defines("merge")

    def machine(self, settings: TimeSettings, layout: Fields | None) -> IncrementalMachine:
        """The machine for its windows. WindowError if it cannot be made. `layout`: the fields of the rows."""
        aggregate = self.aggregate
        if aggregate is None:
            aggregate = OwnMethods(self)
        elif layout is not None:
            aggregate = aggregate.bound(layout.names).in_rows()
        else:
            aggregate = aggregate.in_rows()
        if isinstance(self.windows, Counts):
            return count_windows(self.windows, aggregate, max_states=settings.max_states)
        if self.windows is None:
            raise WindowError("it has no windows")
        lateness_ms, most = settings.allowed_lateness_ms, settings.max_states
        if self.early is None:
            return time_windows(self.windows, aggregate, allowed_lateness_ms=lateness_ms, max_states=most)
        return early_windows(self.windows, aggregate, self.early, allowed_lateness_ms=lateness_ms, max_states=most)

    def layout(self, inputs: Iterable[Fields]) -> Fields | None:
        """The fields that rows are converted to; None: rows stay as they are."""
        if self.aggregate is None or not self.aggregate.fields:
            return None
        kinds = list(dict.fromkeys(inputs))
        # All inputs have the fields that it uses, and perhaps no others.
        return kinds[0] if len(kinds) == 1 else Fields(*dict.fromkeys(self.aggregate.fields))

    def reader(self, layout: Fields | None) -> RowReader:
        """What reads its rows."""
        return RowReader(self.key, _timestamp(self), tuples=self.aggregate is None, layout=layout)

    def problems(self, inputs: Mapping[StreamId, Fields]) -> list[str]:
        found = super().problems(inputs) + wrong_states(self) + wrong_early(self) + wrong_times(self)
        if isinstance(self.aggregate, Aggregate):
            found += wrong_aggregate(self.aggregate, inputs)
            if not wrong_key(self.key, {}):
                found += wrong_results(self.result_names(), self.outputs)
        return found

    def result_names(self) -> tuple[str, ...]:
        """The field names of the rows that are made of an aggregate's results."""
        results = () if self.aggregate is None else self.aggregate.names
        final = () if self.early is None else ("final",)
        return (*key_names(self.key), *(results or ("result",)), "start", "end", *final)

    def check(self, settings: TimeSettings) -> None:
        if not (wrong_states(self) or wrong_early(self)):
            self.machine(settings, None)


class BufferedWindowBolt(WindowBolt):
    """Buffered windows: `execute(window)` gets the tuples themselves: `get()`, `get_new()`, `get_expired()`.

    A tuple is acked when its last window has fired; it fails if one of its windows raised. Until then it is pending at
    its spout: windows longer than `topology.message.timeout.secs` are refused. `execute` may be `async def`. With
    `anchored`, the rows that it returns are anchored to the tuples of the window.
    """

    anchored: ClassVar[bool] = False

    def execute(self, window: WindowRows) -> Returned:
        """Called when a window fires. What it returns is emitted."""
        raise NotImplementedError(f"{type(self).__name__} must define execute(window)")

    @property
    def time_role(self) -> TimeRole:
        role = super().time_role
        kept_ms = None
        waits_ms = sum(ms for ms in (self.allowed_lateness_ms, self.lag_ms) if isinstance(ms, int))
        if isinstance(self.windows, Sliding):
            kept_ms = self.windows.size_ms + self.windows.slide_ms + waits_ms
        elif isinstance(self.windows, Session):
            kept_ms = self.windows.gap_ms + waits_ms  # at least: the length of a session is not known before
        elif isinstance(self.windows, Mixed):  # windows of rows: at least, until the rows have been in a window
            kept_ms = (self.windows.size_ms or self.windows.slide_ms or 0) + waits_ms
        kept_rows = None
        if isinstance(self.windows, Counts):
            kept_rows = self.windows.size
        elif isinstance(self.windows, Mixed) and self.windows.size is not None:
            later_rows = 1 + (role.windowing is Windowing.EVENTS)  # one displaces the oldest, one moves time on
            kept_rows = self.windows.size + later_rows
        later = LaterRows.NONE
        if role.windowing is Windowing.EVENTS and self.generator is None and not self.fire_when_idle:
            waits_for_all = self.policy is WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP
            later = LaterRows.EACH if waits_for_all else LaterRows.SOME
        return replace(role, keeps=True, kept_ms=kept_ms, kept_rows=kept_rows, later=later)

    def machine(self, settings: TimeSettings) -> BufferedMachine:
        """What does the work. WindowError if it cannot be made."""
        if self.windows is None:
            raise WindowError("it has no windows")
        return buffered_windows(
            self.windows, allowed_lateness_ms=settings.allowed_lateness_ms, max_rows=settings.max_states
        )

    def reader(self) -> RowReader:
        """What reads its rows."""
        return RowReader(self.key, _timestamp(self), tuples=True, layout=None)

    def check(self, settings: TimeSettings) -> None:
        self.machine(settings)

    def problems(self, inputs: Mapping[StreamId, Fields]) -> list[str]:
        found = super().problems(inputs)
        if getattr(self, "early", None) is not None:
            found.append("early results are of states: derive from WindowedBolt")
        if not self.defines("execute"):
            found.append(f"{type(self).__name__} defines no execute(window)")
        elif not accepts(self.execute, ("window",)):
            found.append(f"{type(self).__name__}.execute must take (window)")
        elif inspect.isasyncgenfunction(self.execute):
            found.append(f"{type(self).__name__}.execute is async and has a yield: return rows, or emit them")
        elif self.blocking and inspect.iscoroutinefunction(self.execute):
            found.append(f"{type(self).__name__}.execute is async, but blocking=True is for def methods only")
        return found


class OwnMethods(Aggregate):
    """The methods of a WindowedBolt as an aggregate. `purge` is called later, when the result is emitted."""

    def __init__(self, bolt: WindowedBolt) -> None:
        self._title = type(bolt).__qualname__
        self._merges = bolt.merges
        self.init_state = bolt.init_state  # type: ignore[method-assign]
        self.execute = bolt.execute  # type: ignore[method-assign, assignment]
        self.merge = bolt.merge  # type: ignore[method-assign]
        self.pack_state = bolt.pack_state  # type: ignore[method-assign]
        self.unpack_state = bolt.unpack_state  # type: ignore[method-assign]
        self._packs_states = bolt.defines("pack_state")

    @property
    def title(self) -> str:
        """The bolt's name."""
        return self._title

    @property
    def merges(self) -> bool:
        """Whether the bolt defines `merge`."""
        return self._merges

    @property
    def packs_states(self) -> bool:
        return self._packs_states


def key_names(key: Key) -> tuple[str, ...]:
    """The field names of a key in results."""
    if key is None:
        return ()
    if callable(key):
        return ("key",)
    return (key,) if isinstance(key, str) else tuple(key)


def _takes_self(function: FunctionType) -> bool:
    return next(iter(inspect.signature(function).parameters), None) == "self"


def _timestamp(bolt: WindowBolt) -> Timestamp:
    return bolt.timestamp if not bolt.by_count and bolt.time is Time.EVENT else None
