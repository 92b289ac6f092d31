"""Contexts: the span in which a spout emits is the parent of the tuple tree, and the current one in its bolts.

    spout: emit in a span ─► its context, as text ─► row EMITTED, and every segment of the tree (Segment.traced)
                                                                    └─► bolt: current while the rows are executed

1. The text is W3C's: `traceparent`, and after a space `tracestate`, if that is at most 512 characters long.
2. It is read only where `topology.trace.context` is on. A tree whose context is sampled is sampled itself.
3. User code that waits goes on in the context that it had: each step of its coroutine gets it anew, since a turn may
   begin in a callback and go on in the asyncio task.

From: OpenTelemetry's API, W3C Trace Context.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ...topology import Segment
    from ..drive import Yielded

PARENT, STATE = "traceparent", "tracestate"

MAX_STATE_CHARS: Final = 512

_FLAGS: Final = slice(53, 55)
"""Where the flags are in a `traceparent`."""

Run = Callable[["Segment", int, int], int | Awaitable[int]]


class CurrentContext:
    """What the present span is, for one thread. `given`: what another thread has read; None: nothing."""

    __slots__ = ("_get_span", "_inject", "_span", "_text", "given")

    def __init__(self) -> None:
        from opentelemetry.trace import get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._get_span = get_current_span
        self._inject = TraceContextTextMapPropagator().inject
        self._span: object = None
        self._text = ""
        self.given: str | None = None

    def text(self) -> str:
        """The context; empty: there is no span."""
        if self.given is not None:
            return self.given
        span = self._get_span()
        if span is not self._span:  # a spout often emits several tuples in one span
            carrier: dict[str, str] = {}
            self._inject(carrier)
            state = carrier.get(STATE, "")
            self._span = span
            self._text = carrier.get(PARENT, "")
            if self._text and 0 < len(state) <= MAX_STATE_CHARS:
                self._text += f" {state}"
        return self._text


def is_sampled(text: str) -> bool:
    """Does the context say that its trace is recorded?"""
    return bool(text) and bool(int(text[_FLAGS], 16) & 1)


def within(traced: bool | str, run: Run) -> Run:
    """`run`, in the context of a sampled segment; unchanged if that has none."""
    if type(traced) is not str:
        return run
    context = _opened(traced)

    def run_there(segment: Segment, start: int, stop: int) -> int | Awaitable[int]:
        from opentelemetry.context import attach, detach

        token = attach(context)
        try:
            ran = run(segment, start, stop)
        finally:
            detach(token)
        return ran if isinstance(ran, int) else _carried(ran, context)  # type: ignore[arg-type] # a coroutine

    return run_there


def carried(traced: bool | str, work: Coroutine[Yielded, Yielded, int]) -> Coroutine[Yielded, Yielded, int]:
    """`work`, in the context of sampled segments; unchanged if they have none."""
    if type(traced) is not str:
        return work
    return _carried(work, _opened(traced))  # pyright: ignore[reportReturnType] - it is also a generator


def shared(segments: list[Segment]) -> bool | str:
    """The context that all of these have; False: they differ."""
    first = segments[0].traced
    return first if all(segment.traced == first for segment in segments) else False


@types.coroutine
def _carried(work: Coroutine[Yielded, Yielded, int], context: Any) -> Generator[Yielded, Yielded, int]:
    from opentelemetry.context import attach, detach, get_current

    step: Callable[[Yielded], Yielded] = work.send
    argument: Yielded = None
    while True:
        token = attach(context)
        try:
            waited = step(argument)
        except StopIteration as end:
            return int(end.value or 0)
        finally:
            context = get_current()  # a span that user code has opened, and in which it waits
            detach(token)
        try:
            argument = yield waited
            step = work.send
        except BaseException as error:
            step, argument = work.throw, error


@lru_cache(maxsize=64)
def _opened(text: str) -> Any:
    """The context that a text is of."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent, _, state = text.partition(" ")
    return TraceContextTextMapPropagator().extract({PARENT: parent, STATE: state}, Context())
