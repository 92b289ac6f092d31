"""Runs of a sink that is killed once, before or after any of its steps, and then begins again as a topology does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from aiostorm import Config, Fields
from aiostorm.state import Sink
from aiostorm.topology import Origin, Segment, TopologyContext, Tuple
from aiostorm.transport.codec import pack_value, unpack_value

T = TypeVar("T")
ROWS = [(f"key{at % 4}", at) for at in range(12)]


class Killed(BaseException):
    """The process ends here."""


class Kill:
    """Counts the steps of a sink, and kills it before or after one of them. `at` 0: never."""

    def __init__(self, at: int = 0, *, after: bool = False) -> None:
        self.steps = 0
        self._at = at
        self._after = after

    def step(self, work: Callable[[], T]) -> T:
        self.steps += 1
        kill = self.steps == self._at
        if kill and not self._after:
            raise Killed
        result = work()
        if kill:
            raise Killed
        return result


class KilledCursor:
    """A cursor of a database whose statements are steps."""

    def __init__(self, cursor: Any, kill: Kill) -> None:
        self._cursor, self._kill = cursor, kill

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self._kill.step(lambda: self._cursor.execute(statement, values))

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        for values in rows:
            self.execute(statement, values)

    def fetchone(self) -> Any:
        return self._cursor.fetchone()


def row(*values: Any, fields: tuple[str, ...] = ("key", "n")) -> Tuple:
    origin = Origin("rows", 1, "default", Fields(*fields))
    return Segment(origin, [values[0] if origin.bare else values]).tuple_at(0)


def context(task: int = 5) -> TopologyContext:
    return TopologyContext(
        topology="bank",
        component="sink",
        task_id=task,
        task_index=0,
        config=Config(),
        tasks={"sink": (task,)},
        fields={},
        add_hook=lambda hook: None,
    )


def sent(handle: Any) -> Any:
    """The handle as another process gets it."""
    return unpack_value(pack_value(handle))


def run(make: Callable[[Kill], Sink], kill: Kill, on_kill: Callable[[], None] = lambda: None) -> None:
    """Write all ROWS: a snapshot for each two of them, of which the second fails without a restart."""
    number = 0
    manifest: tuple[int | None, int, Any] = (None, 0, None)  # number, offset of the source, handle
    while True:
        sink = make(kill)
        try:
            sink.prepare(context())
            restored, offset, handle = manifest
            if handle is not None:
                sink.commit(handle)
            sink.restored(restored)
            while offset < len(ROWS):
                for values in ROWS[offset : offset + 2]:
                    sink.execute(row(*values), None)  # type: ignore[arg-type]
                offset += 2
                number += 1  # never used again
                handle = sent(sink.pre_commit(number))
                if offset in (4, 8):
                    sink.abort(handle)
                    continue
                manifest = number, offset, handle
                sink.commit(handle)
            sink.cleanup()
            return
        except Killed:
            on_kill()


def all_kills(make: Callable[[Kill], Sink]) -> Iterator[Kill]:
    """A kill before and after each step that a run without kills takes."""
    counted = Kill()
    run(make, counted)
    assert counted.steps > 10, "the steps are not counted"
    for at in range(1, counted.steps + 1):
        yield Kill(at)
        yield Kill(at, after=True)
