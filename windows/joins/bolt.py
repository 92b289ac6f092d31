"""JoinBolt: the rows of several inputs that are in the same window, joined.

    JoinBolt("orders", "user", windows=Tumbling(60_000), timestamp="at")
        .left_join("clicks", "user")
        .select("orders:user, price, url")

1. A joined row is anchored to the tuples that it is made of (`anchored=False`: to none). They are acked when their last
   window has fired, as with every BufferedWindowBolt.
2. A tuple whose key has no hash fails when it arrives.
3. A window emits all its rows, or none if they are more than `max_joined`: then its tuples fail.
4. A task joins the rows that it receives. With several tasks, group all inputs by the fields that they are joined by.
5. Sessions belong to the key by which all inputs are joined. Rows whose key equals nothing (None, NaN) share
   sessions with rows of the same values: which others come to the task makes no difference.

From: Storm, JoinBolt. The clauses are in clauses.py, the joining is in hash.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Self, Unpack

from ...topology import (
    DEFAULT_STREAM,
    BoltCollector,
    Fields,
    Outputs,
    StreamId,
    TopologyContext,
    Tuple,
    UnhashableKeyError,
    WindowKey,
    stable_hash,
)
from ..assigners import Session, Sliding, whole
from ..bolts import BufferedWindowBolt, Windows
from ..errors import WindowError
from ..window import is_nan
from .clauses import Joins, Names
from .hash import MAX_JOINED, HashJoin, JoinKind

if TYPE_CHECKING:
    from ..kept_rows import WindowRows
    from ..keywords import SharedSettings
    from ..values import Value

AT_ONCE: Final = 1_000
"""This many rows of a window are emitted before the bolt waits for its receivers."""


class JoinBolt(BufferedWindowBolt):
    """Joins inputs by equal values, window by window. `source`: a component, or `component:stream`.

    `key`: the field, or the fields, by which the others are joined to it. `stream`: the stream of the joined rows. The
    settings are those of every bolt with windows; a `timestamp` field must be in all inputs, else give a function of a
    Tuple. The methods change this bolt and return it. WindowError if the clauses make no sense.
    """

    anchored: ClassVar[bool] = True
    max_joined: ClassVar[int] = MAX_JOINED
    stream: ClassVar[str] = DEFAULT_STREAM

    def __init__(
        self,
        source: str,
        key: Names,
        windows: Windows | None = None,
        *,
        anchored: bool | None = None,
        max_joined: int | None = None,
        stream: str | None = None,
        **settings: Unpack[SharedSettings],
    ) -> None:
        if "outputs" in settings:
            raise WindowError("a join has no outputs setting: choose its fields with select('user, clicks:url')")
        super().__init__(windows, key=self._checked, **settings)
        for name, value in {"anchored": anchored, "max_joined": max_joined, "stream": stream}.items():
            if value is not None:
                setattr(self, name, value)
        self.joins = Joins.of(source, key)

    def join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Self:
        """Keep rows with a partner in `prior` (required after two inputs), compared by `prior_key` (None: its key)."""
        return self._joined(JoinKind.INNER, source, key, prior, prior_key)

    def left_join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Self:
        """Also keep rows of the inputs so far that have no partner."""
        return self._joined(JoinKind.LEFT, source, key, prior, prior_key)

    def right_join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Self:
        """Also keep rows of `source` that have no partner."""
        return self._joined(JoinKind.RIGHT, source, key, prior, prior_key)

    def full_join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Self:
        """Also keep rows of both sides that have no partner."""
        return self._joined(JoinKind.FULL, source, key, prior, prior_key)

    def select(self, *references: str) -> Self:
        """Choose the fields and their order: `"user, clicks:url as page"`. Without a `select`: all fields."""
        self.joins = self.joins.select(*references)
        return self

    @property
    def outputs_follow(self) -> bool:
        return not self.joins.selected

    @property
    def window_key(self) -> WindowKey:
        if not isinstance(self.windows, Sliding | Session):
            return WindowKey(problem="each of its windows has so many rows of its task, whatever their key")
        if not self.joins.by_one_key:
            return WindowKey(problem="its inputs are joined by several keys")
        return WindowKey(of_input={joined.source: joined.key for joined in self.joins.inputs})

    def all_outputs(self, inputs: Mapping[StreamId, Fields] | None = None) -> Outputs:
        known = inputs is not None and all(joined.source in inputs for joined in self.joins.inputs)
        if self.joins.selected or known:
            self.outputs = {self.stream: self.joins.outputs(inputs)}  # type: ignore[misc] # this one's
        return super().all_outputs(inputs)

    def problems(self, inputs: Mapping[StreamId, Fields]) -> list[str]:
        problems = [*super().problems(inputs), *self.joins.problems(inputs)]
        try:
            whole(self.max_joined, "max_joined")
        except WindowError as error:
            problems.append(str(error))
        if isinstance(self.windows, Session) and not self.joins.by_one_key:
            problems.append(
                "join: sessions are of one key, but its inputs are joined by several: join each input by the key that "
                "its prior is joined by, in several bolts, or use Tumbling or Sliding"
            )
        return problems

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self._collector = collector
        sources = [joined.source for joined in self.joins.inputs]
        fields = {source: context.fields(source.component, source.stream) for source in sources}
        self._machine: HashJoin = self.joins.machine(fields, max_rows=self.max_joined)
        self._inputs = {(source.component, source.stream): at for at, source in enumerate(sources)}
        self._keys = self.joins.keys(fields) if isinstance(self.windows, Session) else []

    async def execute(self, window: WindowRows) -> None:
        """Emit the joined rows of a window, as fast as the receivers accept them. JoinError if there are too many."""
        tuples: list[list[Tuple]] = [[] for _ in self._inputs]
        for tup in window.rows:
            tuples[self._inputs[tup.source_component, tup.stream]].append(tup)
        rows = [[tup.values for tup in several] for several in tuples]
        collector, machine, anchors = self._collector, self._machine, None
        for count, places in enumerate(list(machine.places(rows)), 1):
            if self.anchored:
                anchors = [several[place] for several, place in zip(tuples, places, strict=True) if place is not None]
            collector.emit(machine.values(rows, places), anchors, self.stream)
            if count % AT_ONCE == 0:
                await collector.drain()

    def _checked(self, tup: Tuple) -> tuple[Value, ...] | int | None:
        """The window key: None for all tuples, except with sessions. Tuples that cannot be joined fail here."""
        number = self._inputs[tup.source_component, tup.stream]
        self._machine.check(number, tup.values)
        if not self._keys:
            return None
        key = tuple(column.of(tup.values) for column in self._keys[number])
        return _equal_to_nothing(key) if is_nan(key) or None in key else key

    def _joined(self, kind: JoinKind, source: str, key: Names, prior: str | None, prior_key: Names | None) -> Self:
        self.joins = self.joins.joined(kind, source, key, prior, prior_key)
        return self


def _equal_to_nothing(key: tuple[Value, ...]) -> int | None:
    """The window key of rows whose key equals nothing: a number, which is no other row's key.

    Rows with the same number always come to the same task. None: the key has no stable hash, so there is one task only.
    """
    try:
        return stable_hash(key)
    except UnhashableKeyError:
        return None
