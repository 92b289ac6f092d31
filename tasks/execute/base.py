"""Executor: a way to execute a bolt's rows. The task passes slices of segments; an executor runs user code.

Each kind of executor is a file of its own and a line in the table of choice.py.

1. `run` executes rows [start, stop) of a segment in order and returns how many failed. It suspends only where user code
   does, or where the results of one row are so many that they must wait for capacity.
2. In a basic or function bolt a row is acked when it has been executed and failed when it raises; the others continue.
3. What a function emitted for a row that failed is not sent if it is still in the buffer. What a basic bolt emitted is
   sent: its message may be replayed anyway.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...topology import Segment

if TYPE_CHECKING:
    from ...topology import Component, Function, FunctionBolt, StateValue
    from ..drive import Yielded
    from ..emit.collectors import BoltTaskCollector, TaskCollector
    from ..emit.emitter import Emitter
    from ..emit.outbox import Outbox
    from ..hooks import HookCalls
    from .user_calls import InThread

Fail = Callable[[Segment, int, BaseException], None]
FailSegment = Callable[[Segment, BaseException | str | None], None]


@dataclass(frozen=True, slots=True)
class Tools:
    """What a bolt task gives its executor.

    `lost(error)`: a result is lost, not only a row. `state`: what the component declares as state; None: nothing.
    `in_thread`: runs work in the thread of a blocking bolt; None: it is not blocking.
    """

    emitter: Emitter
    outbox: Outbox
    report: Callable[[BaseException], None]
    suspend: Callable[[], None]
    fail: Fail
    fail_segment: FailSegment
    hooks: HookCalls | None
    lost: Callable[[BaseException], None]
    state: StateValue = None
    in_thread: InThread | None = None


@dataclass(frozen=True, slots=True)
class Collectors:
    """The collectors of a bolt task: `rich`, which `prepare` of a rich bolt receives, and all of them."""

    rich: BoltTaskCollector
    all: list[TaskCollector]


class Executor(ABC):
    """Runs a bolt's user code over slices of segments."""

    hold_open = False
    """True: the bolt acks by itself. False: the task counts executed rows as done."""
    in_loop = False
    """`run` is called in the event loop, also of a blocking bolt: it uses the thread by itself."""
    plain = True
    """User code is not `async def`: a turn seldom waits, so it need not start in the asyncio task."""
    _hooks: HookCalls | None = None

    @classmethod
    def for_component(cls, component: Component, tools: Tools, collectors: Collectors) -> Executor | None:
        """The executor of this prepared component; None: another kind of executor runs it (choice.py).

        Collectors that are made for the executor are added to `collectors`.
        """
        return None

    @abstractmethod
    def run(self, segment: Segment, start: int, stop: int) -> int | Awaitable[int]:
        """Execute rows [start, stop); returns how many of them failed, or an awaitable of that."""

    def reached(self) -> int | None:
        """User code waits in the middle of `run`: rows before this one are executed, unless the bolt acks them itself.

        None: anchors of rows may be in use (see Emitter), so these rows stay in their trees.
        """
        return None

    def refresh(self) -> None:
        """The rows in hand have left their trees, and emit buffers were sealed: look both up again."""
        return

    def use_hooks(self, hooks: HookCalls | None) -> None:
        """Call these from the next `run` on. (Hooks of batches are called by the task.)"""
        self._hooks = hooks

    @abstractmethod
    async def tick(self, segment: Segment) -> None:
        """Execute a tick tuple."""


class RowFailedError(Exception):
    """A rich bolt raised, at this offset of the segment (-1: the batch); `__cause__` is the error."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def without_waiting(work: Coroutine[Yielded, Yielded, int | None]) -> int:
    """Run an executor to its end in a thread: its user code is not async, so it never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        return int(end.value or 0)
    work.close()
    raise RuntimeError("a blocking component suspended: its methods must be plain `def`")


def with_state(bolt: FunctionBolt, state: StateValue) -> Function:
    """The function, called with the state of its task if it takes one."""
    return bolt.fn if bolt.state is None else partial(bolt.fn, state=state)
