"""Problems: error messages for bolts with windows, before anything runs. The builder adds the name of the bolt.

1. Each problem names the setting, the field or the method, and says what to give instead.
2. A user's function is inspected, not called; only a `generator` is called, to check what it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..topology import DEFAULT_STREAM, Config, Fields, StreamId, nearest, read_outputs
from .aggregates import Aggregate
from .assigners import Counts, Mixed, Session, Sliding, Time
from .early import Each, Every
from .errors import WindowError
from .late import LatePolicy
from .settings import TimeSettings
from .timestamps import TIMES
from .values import is_tuple
from .watermarks import Watermarks

if TYPE_CHECKING:
    from .bolts import WindowBolt, WindowedBolt

LATE_FIELDS: Final = Fields("values", "timestamp_ms", "component", "stream")
"""The fields of the stream of late tuples: the row, its timestamp, and its source."""

Given = tuple[str, ...]
"""The positional arguments of a function or a method."""

TUPLE: Final[Given] = ("tup",)

MAY_WAIT: Final = frozenset({"purge", "retract"})
"""Methods that may be `async def`, or wait in the thread of a blocking bolt."""


def wrong_windows(bolt: WindowBolt) -> list[str]:
    """Check that there are windows."""
    windows: object = bolt.windows
    if windows is None:
        return [
            "it has no windows: give Tumbling(size_ms), Sliding(size_ms, slide_ms), Session(gap_ms) or Counts(size)"
        ]
    if not isinstance(windows, Sliding | Session | Counts | Mixed):
        return [f"windows are {windows!r}; give Tumbling, Sliding, Session, Counts or Mixed"]
    time: object = getattr(windows, "time", Time.PROCESSING)
    if not isinstance(time, Time):
        return [f"the time of its windows is {time!r}; give Time.EVENT, Time.PROCESSING or Time.INGESTION"]
    return []


def wrong_key(key: object, inputs: Mapping[StreamId, Fields]) -> list[str]:
    """Check that the key is None, a field, several fields, or a function of a Tuple."""
    if key is None:
        return []
    if callable(key):
        return _of_function(key, "key")
    given = (key,) if isinstance(key, str) else key if is_tuple(key) else ()
    names = tuple(name for name in given if isinstance(name, str) and name)
    if not names or len(names) < len(given):
        return [f"key is {key!r}; give a field's name, a tuple of names, or a function of a Tuple"]
    twice = sorted({name for name in names if names.count(name) > 1})
    return missing(names, inputs, "key") + [f"key names {name!r} twice" for name in twice]


def wrong_timestamp(bolt: WindowBolt, inputs: Mapping[StreamId, Fields]) -> list[str]:
    """Check that the timestamp is a field or a function of a Tuple. Windows by event time need one."""
    timestamp = bolt.timestamp
    if isinstance(timestamp, str):
        return missing([timestamp], inputs, "timestamp")
    if callable(timestamp):
        return _of_function(timestamp, "timestamp")
    if timestamp is not None:
        return [f"timestamp is {timestamp!r}; give a field's name or a function of a Tuple"]
    if isinstance(bolt.windows, Sliding | Session | Mixed) and bolt.windows.time is Time.EVENT:
        need = 'give timestamp="field" or a function of a Tuple, or windows by Time.PROCESSING'
        return [f"windows by event time need to know when a row happened: {need}"]
    return []


def wrong_late(bolt: WindowBolt) -> list[str]:
    """Check the policy for late tuples, and what it requires."""
    late: object = bolt.late
    name = type(bolt).__name__
    if not isinstance(late, LatePolicy):
        return [f"late is {late!r}; give LatePolicy.DROP, LatePolicy.STREAM or LatePolicy.RETRACT"]
    if late is LatePolicy.RETRACT and not bolt.defines("retract"):
        return [f"late tuples are to be retracted, but {name} defines no retract(tup, windows)"]
    if late is LatePolicy.STREAM:
        declared = read_outputs(bolt.outputs)[0].get(bolt.late_stream)
        if declared is not None and declared.fields != LATE_FIELDS:
            return [
                f"late_stream {bolt.late_stream!r} is already a stream of its outputs: give late tuples another one"
            ]
    elif bolt.late_stream != "late":
        return [f"late_stream is {bolt.late_stream!r}, but late tuples do not go there: say late=LatePolicy.STREAM"]
    return []


def wrong_early(bolt: WindowedBolt) -> list[str]:
    """Check that early results are Every or Each, for windows by time."""
    early: object = bolt.early
    if early is None:
        return []
    if not isinstance(early, Every | Each):
        return [f"early is {early!r}; give Every(ms) or Each(rows)"]
    if isinstance(bolt.windows, Counts):
        return ["early results are of windows by time: windows by count end with their rows; make them smaller"]
    waits = bolt.blocking or inspect.iscoroutinefunction(bolt.purge)
    if isinstance(early, Each) and waits and bolt.aggregate is None:
        return ["early=Each(…) emits in the middle of a turn, where purge cannot wait: use Every(ms), or a def purge"]
    return []


def wrong_times(bolt: WindowedBolt) -> list[str]:
    """Check the setting `times`, and that it applies to these windows."""
    if bolt.times not in TIMES:
        return [f'times is {bolt.times!r}; give "ms" (milliseconds since 1970) or "datetime" (in UTC)']
    if bolt.times != "ms" and isinstance(bolt.windows, Counts):
        return ["times is of windows by time: start and end of windows by count are numbers of rows"]
    if bolt.times != "ms" and not isinstance(bolt.aggregate, Aggregate):
        return ["times is of ready-made aggregates: in a purge of your own, to_datetime(window.start) gives a datetime"]
    return []


def wrong_settings(bolt: WindowBolt, check: Callable[[TimeSettings], None] | None) -> list[str]:
    """Check lag, interval, policy, generator and so on; `check` makes the machine."""
    flags = [name for name in ("fire_when_idle", "anchored") if not isinstance(getattr(bolt, name, False), bool)]
    if flags:
        return [f"{name} is {getattr(bolt, name)!r}; give True or False" for name in flags]
    try:
        settings = TimeSettings.of(bolt, Config())
        settings.new_generator()
        Watermarks((0,), policy=settings.policy, ratio=settings.ratio, idle_timeout_ms=settings.idle_timeout_ms)
        if check is not None:
            check(settings)
    except WindowError as error:
        return [str(error)]
    return []


def wrong_methods(bolt: WindowBolt, takes: Mapping[str, Given]) -> list[str]:
    """Check the methods that windows call within a turn: `takes` has the arguments of each."""
    name = type(bolt).__name__
    problems: list[str] = []
    problems += [
        f"{name} defines {method}, which is never called on a bolt with windows: use another bolt for that"
        for method in ("execute_batch", "execute_arrow", "on_tick")
        if hasattr(bolt, method)
    ]
    for method, given in takes.items():
        if not bolt.defines(method):
            continue
        called = getattr(bolt, method)
        problems += wrong_async(bolt, method, may_wait=method in MAY_WAIT)
        if not accepts(called, given):
            problems.append(f"{name}.{method} must take ({', '.join(given)})")
    return problems


def wrong_async(bolt: WindowBolt, method: str, *, may_wait: bool) -> list[str]:
    """Check that a method is not `async def` where it cannot be."""
    called, name = getattr(bolt, method), f"{type(bolt).__name__}.{method}"
    if inspect.isasyncgenfunction(called):
        return [f"{name} is async and has a yield: return a list of rows"]
    if not inspect.iscoroutinefunction(called):
        return []
    if not may_wait:
        return [f"{name} is async, but windows call it in the middle of a turn: make it def"]
    return [f"{name} is async, but blocking=True is for def methods only"] if bolt.blocking else []


def wrong_states(bolt: WindowedBolt) -> list[str]:
    """Check that it has an aggregate, or the methods that replace one."""
    name, aggregate = type(bolt).__name__, bolt.aggregate
    own = [method for method in ("init_state", "execute", "purge") if bolt.defines(method)]
    if aggregate is not None:
        if not isinstance(aggregate, Aggregate):
            return [f"its aggregate is {aggregate!r}; give an Aggregate: Count(), Sum(field), …"]
        return [f"{name} has an aggregate and defines {', '.join(own)} too: leave one of them out"] if own else []
    lacking = [method for method in ("init_state", "execute", "purge") if method not in own]
    if lacking:
        return [f"{name} defines no {', no '.join(lacking)}; or give it an aggregate: Count(), Sum(field)"]
    found = [
        f"{name}.{method} has a yield in it, but what it returns is a state; only purge and retract give rows"
        for method in ("init_state", "execute", "merge")
        if inspect.isgeneratorfunction(getattr(bolt, method))
    ]
    if isinstance(bolt.windows, Session) and not bolt.defines("merge"):
        found.append(f"sessions may overlap: {name} must define merge(first, second), which makes one state of two")
    found += wrong_async(bolt, "purge", may_wait=True)
    if not (accepts(bolt.purge, ("state", "window", "key")) or accepts(bolt.purge, ("state", "window"))):
        found.append(f"{name}.purge must take (state, window), or (state, window, key)")
    return found


def wrong_results(names: Sequence[str], outputs: object) -> list[str]:
    """Check that rows with these field names fit the outputs."""
    if outputs is None:
        twice = sorted({name for name in names if names.count(name) > 1})
        return [
            f"its rows would have two fields {name!r} (they are {', '.join(names)}): name them yourself, "
            "outputs=Fields(…)"
            for name in twice
        ]
    declared = read_outputs(outputs)[0].get(DEFAULT_STREAM)
    if declared is None:
        return ["outputs has no default stream, but that is where its rows go"]
    if len(declared.fields) != len(names):
        has = f"outputs has {len(declared.fields)} fields ({', '.join(declared.fields)})"
        return [f"{has}, but its rows have {len(names)}: {', '.join(names)}"]
    return []


def wrong_aggregate(aggregate: Aggregate, inputs: Mapping[StreamId, Fields]) -> list[str]:
    """Check that the inputs have the fields that the aggregate uses."""
    problems = missing(aggregate.fields, inputs, "its aggregate")
    if aggregate.fields and aggregate.whole and len({fields.names for fields in inputs.values()}) > 1:
        problems.append(
            "its inputs have different fields, and its aggregate looks at whole rows too: name the fields (of=…)"
        )
    lost = [part.title for part in aggregate.parts if part.wants_a_field]
    wide = next((source for source, fields in inputs.items() if len(fields) > 1), None)
    if lost and wide is not None:
        problems.append(
            f"its aggregate: {lost[0]}() of a row of {wide}, which has several fields: name one, {lost[0]}(field)"
        )
    return problems


def missing(names: Sequence[str], inputs: Mapping[StreamId, Fields], what: str) -> list[str]:
    """A problem for each name that an input lacks."""
    return [
        f"{what}: {source} has no field {name!r}{_hint(name, fields)}"
        for source, fields in inputs.items()
        for name in dict.fromkeys(names)
        if name not in fields.names
    ]


def accepts(called: Callable[..., object], given: Given) -> bool:
    """Whether it can be called with these positional arguments. True if it has no signature."""
    try:
        inspect.signature(called).bind(*given)
    except TypeError:
        return False
    except ValueError:  # a builtin
        return True
    return True


def _of_function(function: Callable[..., object], what: str) -> list[str]:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return [f"{what} is an async function, but it is called for each tuple in the middle of a turn: make it def"]
    if not accepts(function, TUPLE):
        return [f"{what} is a function that does not take one argument, the Tuple"]
    return []


def _hint(name: str, fields: Fields) -> str:
    like = nearest(name, fields.names)
    return f"; there are: {', '.join(fields)}" if like is None else f"; did you mean {like!r}?"
