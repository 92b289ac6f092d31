"""Function executor: `@bolt` functions, the fast path. The row is the arguments; a result is a value or a tuple of
them.

1. No Tuple objects, and no Python code between the rows where possible: `map` calls the function, a list collects what
   it returns.
2. What a call has emitted before it raised is not sent, if it is still in the buffer; the other rows continue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat, starmap
from operator import length_hint
from typing import TYPE_CHECKING, Final

from ...topology import DEFAULT_STREAM, EmitError, FunctionBolt, Segment, Tuple
from ..drive import USER_ERRORS, drive, stop_iteration_error, user_error
from ..emit.lineage import MANY
from ..hints import YIELD_EACH
from .base import Collectors, Executor, Fail, Tools, with_state
from .basic_executor import BasicExecutor, BasicTaskCollector

if TYPE_CHECKING:
    from ...topology import Anchor, Component, Function, Item, Returned, StateValue, Value
    from ..emit.emitter import Emitter
    from ..emit.out_streams import OutStream
    from ..emit.outbox import Outbox

RESULTS_CHUNK: Final = 4096
"""A generator's results are taken this many at a time; each chunk is sent, and waits for capacity."""


class FunctionExecutor(Executor):
    """Function bolts: the row is the arguments; a result is a value, or a tuple of them."""

    @classmethod
    def for_component(cls, component: Component, tools: Tools, collectors: Collectors) -> Executor | None:
        if not isinstance(component, FunctionBolt):
            return None
        emitter, outbox = tools.emitter, tools.outbox
        if tools.hooks is None:
            return cls(component, emitter, outbox, tools.fail, tools.state)
        default = emitter.streams.get(DEFAULT_STREAM)  # hooks see tuples: so the function is called as a basic bolt
        single = default is not None and default.arity == 1
        execute = function_as_execute(component, with_state(component, tools.state), single=single)
        collector = BasicTaskCollector(emitter, outbox, tools.report)
        return BasicExecutor(execute, collector, tools.fail, lambda collector: None, tools.hooks)

    def __init__(
        self, bolt: FunctionBolt, emitter: Emitter, outbox: Outbox, fail: Fail, state: StateValue = None
    ) -> None:
        self._fn = with_state(bolt, state)
        self._emitter = emitter
        self._outbox = outbox
        self._fail = fail
        self._stream = emitter.streams.get(DEFAULT_STREAM)
        self._arity = self._stream.arity if self._stream is not None else -1
        self._single = self._arity == 1
        self._generates = bolt.style == "generator"
        self._at = 0
        if not (bolt.is_async or self._generates):
            self.run = self._run_sink if self._stream is None else self._run_function  # type: ignore[method-assign]
        self.may_wait = not bolt.blocking
        self.plain = not bolt.is_async

    def run(self, segment: Segment, start: int, stop: int) -> int | Awaitable[int]:
        found: Sequence[Anchor] | None = segment.lineage.pairs if segment.lineage is not None else segment.indices
        if found is None:
            anchors: Iterable[Anchor] = repeat(None, stop)
        else:
            anchors = found[start:stop] if start or stop < len(segment.items) else found
        if not self.plain:
            return self._run_async(segment, start, stop)
        return self._run_generator(segment, start, stop, anchors)

    def _calls(self, segment: Segment, start: int, stop: int) -> tuple[Iterator[Item], Iterator[Returned]]:
        """Items, and the results of the function for each, unpacked and called in C.

        A call that raises ends a loop over the results; then both iterators are after its item.
        """
        left = iter(segment.items if stop - start == len(segment.items) else segment.items[start:stop])
        return left, map(self._fn, left) if segment.origin.bare else starmap(self._fn, left)

    def _run_function(self, segment: Segment, start: int, stop: int) -> int:
        """A plain function: one result for each item, or none."""
        stream: OutStream = self._stream  # type: ignore[assignment] # without one, it is _run_sink
        anchors: Sequence[Anchor] | None
        if segment.lineage is not None:
            root, anchors = MANY, segment.lineage.pairs
        else:
            root, anchors = segment.root, segment.indices
        _, calls = self._calls(segment, start, stop)
        failed, at = 0, start
        while at < stop:  # once, unless a call raises
            raised: Exception | None = None
            items: list[Item] = []
            try:
                items.extend(calls)  # results before an error stay in the list
            except USER_ERRORS as error:
                raised = user_error(error)
            end = at + len(items)
            if end < stop and raised is None:
                raised = stop_iteration_error()
            own = anchors if anchors is None or (at == 0 and end == len(segment.items)) else anchors[at:end]
            if not self._are_items(items):
                items, own, refused = self._checked(segment, at, items, own)
                failed += refused
            if items:
                self._emitter.add(root, stream, items, own)
            if raised is not None:
                failed += 1
                self._fail(segment, end, raised)
                raised = None  # its traceback refers to this frame, and so to the segment
            at = end + 1
        return failed

    def _are_items(self, results: list[Item]) -> bool:
        """The common case: each result can be sent as it is."""
        if self._single:
            for result in results:  # noqa: SIM110 - a loop is faster than a generator
                if result is None:
                    return False
            return True
        arity = self._arity
        return all([type(result) is tuple and len(result) == arity for result in results])  # noqa: C419 - faster

    def _checked(
        self, segment: Segment, at: int, results: list[Item], anchors: Sequence[Anchor] | None
    ) -> tuple[list[Item], list[Anchor] | None, int]:
        """The results of rows from `at` on, without those that are None; rows with invalid ones fail."""
        items: list[Item] = []
        own: list[Anchor] = []
        refused = 0
        for offset, (result, anchor) in enumerate(zip(results, anchors if anchors is not None else repeat(None)), at):  # noqa: B905
            if result is not None:
                try:
                    items.append(self._item(result))
                except Exception as error:
                    refused += 1
                    self._fail(segment, offset, error)
                else:
                    own.append(anchor)
        return items, own if anchors is not None else None, refused

    async def _run_generator(self, segment: Segment, start: int, stop: int, anchors: Iterable[Anchor]) -> int:
        failed = 0
        single = self._single
        out, out_anchors = self._buffer(segment)
        extend, before = out.extend, len(out)
        left, calls = self._calls(segment, start, stop)
        anchored = zip(anchors, calls)  # noqa: B905 - the hot path; the anchor first, so that it goes with an item that raises
        while True:
            try:
                for anchor, results in anchored:
                    chunk = islice(results, RESULTS_CHUNK)
                    extend(chunk if single else map(self._item, chunk))
                    made = len(out) - before
                    if made:
                        out_anchors += repeat(anchor, made)
                        before += made
                        if made == RESULTS_CHUNK:
                            offset = stop - length_hint(left) - 1
                            failed += await self._rest(segment, offset, results, anchor)
                            out, out_anchors = self._buffer(segment)
                            extend, before = out.extend, len(out)
                return failed
            except USER_ERRORS as error:
                del out[before:]
                failed += 1
                self._fail(segment, stop - length_hint(left) - 1, user_error(error))

    def _run_sink(self, segment: Segment, start: int, stop: int) -> int:
        """A plain function that emits nothing: no anchors, no buffers."""
        _, calls = self._calls(segment, start, stop)
        failed, at = 0, start
        while at < stop:  # once, unless a call raises
            raised: Exception | None = None
            results: list[Item] = []
            try:
                results.extend(calls)
            except USER_ERRORS as error:
                raised = user_error(error)
            end = at + len(results)
            if end < stop and raised is None:
                raised = stop_iteration_error()
            if [result for result in results if result is not None]:
                failed += self._checked(segment, at, results, None)[2]  # all are invalid: no output is declared
            if raised is not None:
                failed += 1
                self._fail(segment, end, raised)
                raised = None  # its traceback refers to this frame, and so to the segment
            at = end + 1
        return failed

    async def _run_async(self, segment: Segment, start: int, stop: int) -> int:
        failed = 0
        for offset in range(start, stop):
            self._at = offset
            try:
                result = self._fn(*segment.row(offset))
                await drive(self._collect(result, segment, offset), self._emitter.flush)
            except USER_ERRORS as error:
                failed += 1
                self._fail(segment, offset, user_error(error))
        return failed

    def reached(self) -> int | None:
        return None if self.plain else self._at

    async def tick(self, segment: Segment) -> None:
        """Without effect: a function has no ticks."""

    def _buffer(self, segment: Segment) -> tuple[list[Item], list[Anchor]]:
        if self._stream is None:
            return [], []
        return self._emitter.buffer_of(segment).buffer(self._stream)

    async def _rest(self, segment: Segment, offset: int, results: Iterator[Returned], anchor: Anchor) -> int:
        """The results of one row after the first chunk, with waits between chunks. 1 if the row failed, else 0."""
        try:
            while True:
                await self._wait_unblocked()
                out, out_anchors = self._buffer(segment)
                before = len(out)
                out.extend(map(self._item, islice(results, RESULTS_CHUNK)))
                out_anchors.extend(repeat(anchor, len(out) - before))
                if len(out) - before < RESULTS_CHUNK:
                    return 0
        except USER_ERRORS as error:
            out, out_anchors = self._buffer(segment)
            del out[len(out_anchors) :]
            self._fail(segment, offset, user_error(error))
            return 1

    async def _wait_unblocked(self) -> None:
        if self.may_wait:
            self._emitter.flush()
            await self._outbox.unblocked()

    async def _collect(self, result: Returned, segment: Segment, offset: int) -> None:
        """Await an async function's results. Each suspension flushes, so the buffer is looked up for every result.

        The anchor is, too: the segment may have left its trees meanwhile.
        """
        if not self._generates:
            value = await result
            if value is not None:
                self._append(segment, value, offset)
            return
        results: AsyncIterator[Returned] = result
        async for value in results:
            if self._append(segment, value, offset) >= RESULTS_CHUNK:
                await self._wait_unblocked()

    def _append(self, segment: Segment, value: Returned, offset: int) -> int:
        item = self._item(value)
        out, out_anchors = self._buffer(segment)
        anchors = segment.indices if segment.lineage is None else segment.lineage.pairs
        out.append(item)
        out_anchors.append(None if anchors is None else anchors[offset])
        return len(out)

    def _item(self, value: Returned) -> Item:
        """A result as it is sent: the value itself with one declared field, else a checked row."""
        if self._single:
            return value
        if self._stream is None:
            name = self._emitter.streams.name
            raise EmitError(f"{name} returned {value!r:.200} but declares no outputs: @bolt(outputs=…)")
        try:
            return self._emitter.streams.row(value, DEFAULT_STREAM)[1]  # several fields: the row
        except EmitError as error:
            if isinstance(value, list) and value and all(isinstance(item, list | tuple) for item in value):
                raise EmitError(f"{error}; it is a list of rows: {YIELD_EACH}") from None
            raise


def function_as_execute(
    bolt: FunctionBolt, fn: Function, *, single: bool
) -> Callable[[Tuple, BasicTaskCollector], Returned]:
    """A function bolt with Tuple objects, for a task with hooks: `execute(tup, collector)`."""

    async def execute(tup: Tuple, collector: BasicTaskCollector) -> None:
        result = fn(*tup.values)
        if bolt.style != "generator":
            value = await result if bolt.is_async else result
            if value is not None:
                collector.emit((value,) if single else value)
            return
        made = 0
        async for value in result if bolt.is_async else _each(result):
            collector.emit((value,) if single else value)
            made += 1
            if made % RESULTS_CHUNK == 0 and not bolt.blocking:
                await collector.drain()

    return execute


async def _each(values: Iterable[Value]) -> AsyncIterator[Value]:
    for value in values:
        yield value
