"""Spout collector: from emits to trees.

The messages of one turn, up to `topology.acker.tree.max.messages`, share one root; each has its index. A message that
has failed before gets a tree of its own.

    emit ─► open tree: ids, emit buffer ─► full, or the turn ends: seal ─► add to pending, INIT to the acker,
    send the segments

1. A message without a consumer, or without ackers, is acked at once (when the call that emitted it returns).
2. Values are kept only where they are needed: for replay by the framework, and for spouts that want their values back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...acker import Emission, Forget, IdSource, Init, Pending, Retries, Settled, Tree, shared_root, single_root
from ...actors import Inbox
from ...topology import DEAD_LETTER_STREAM, DEFAULT_STREAM, ColumnRows, Failure, Row, is_batch
from .collectors import TaskCollector
from .emit_buffer import UNTRACKED, EmitBuffer, OutStream
from .emitter import Emitter
from .kept_values import KeptValues
from .outbox import Outbox


class SpoutTaskCollector(TaskCollector):
    """For spouts. `wake` is called when the spout says that there is something new, or that it has finished."""

    def __init__(
        self,
        emitter: Emitter,
        outbox: Outbox,
        report: Callable[[BaseException], None],
        *,
        task_id: int,
        ackers: Sequence[Inbox],
        ids: IdSource,
        pending: Pending,
        retries: Retries,
        keep_values: bool,
        tree_max: int,
        monotonic: Callable[[], float],
        wake: Callable[[], None],
        after_round: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(emitter, outbox, report)
        self.emitted = 0
        self.finished = False
        self.settled_at_once: list[Tree] = []
        self._task_id = task_id
        self._ackers = ackers
        self._ids = ids
        self._pending = pending
        self._retries = retries
        self._suspects = retries.suspects
        self._keep_values = keep_values
        self._tree_max = tree_max
        self._monotonic = monotonic
        self._wake = wake
        self._after_round = after_round  # the INITs are posted after the data
        self._posting = False
        self._open_ids: list[Any] = []
        self._open_emissions: list[Emission] = []
        self._emit_buffer: EmitBuffer | None = None
        self._inits: list[tuple[int, int]] = []
        default = emitter.streams.get(DEFAULT_STREAM)
        plain = default is not None and default.consumed and not default.direct
        # The fast path of `emit`: -1 sends every emit through the slow path, which checks everything.
        self._default = default if plain else None
        self._arity = default.arity if default is not None and plain else -1
        self._bare = self._arity == 1
        # The open tree's items on the default stream. As long as it has no others (and no emit buffer), marks and
        # emissions follow from them: they are made when the tree is sealed, or not at all.
        self._items: list[Any] = []
        self._marks: list[Any] = []
        self._loose: list[Any] | None = None  # items without a message id that wait for the turn's end

    @property
    def open_messages(self) -> int:
        """Messages emitted and not yet in `pending`."""
        return len(self._open_ids)

    @property
    def dirty(self) -> bool:
        """Is there anything to flush?"""
        return bool(self._open_ids or self._inits or self._emitter.dirty)

    @property
    def emitted_at_all(self) -> int:
        """Messages and rows that were emitted, replays counted each time."""
        return self.emitted + self._emitter.counters.replayed

    def emit(self, values: Row | list[Any], message_id: Any = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple; tracked if it has a message id."""
        if stream == DEFAULT_STREAM and type(values) is tuple and len(values) == self._arity and not self._suspects:
            if message_id is None:
                (self._loose if self._loose is not None else self._open_loose()).append(
                    values[0] if self._bare else values
                )
                self.emitted += 1
                return
            ids = self._open_ids
            if not ids:
                self._open_tree()
            elif self._emit_buffer is not None:
                self._mix(values)
            self._items.append(values[0] if self._bare else values)
            ids.append(message_id)
            self.emitted += 1
            if len(ids) >= self._tree_max:
                self._seal_tree(0)
            return
        self._emit(values, message_id, stream, None)

    @property
    def takes_chunks(self) -> bool:
        """Can `emit_chunk` be used?"""
        return self._default is not None

    def emit_chunk(self, items: list[Any], first_id: int | None) -> None:
        """Emit checked items of the default stream; message ids from `first_id` on, None: untracked."""
        self.emitted += len(items)
        if first_id is None:
            (self._loose if self._loose is not None else self._open_loose()).extend(items)
            return
        done, tree_max = 0, self._tree_max
        while done < len(items):
            if not self._open_ids and len(items) - done >= tree_max:  # a full tree: its ids stay a range
                part = items[done : done + tree_max] if len(items) > tree_max else items
                self._send_tree(part, range(first_id + done, first_id + done + tree_max))
            else:
                if not self._open_ids:
                    self._open_tree()
                part = items[done : done + tree_max - len(self._open_ids)]
                if self._emit_buffer is not None:  # rows before them took the slow path
                    self._mix_chunk(part)
                self._items += part
                self._open_ids += range(first_id + done, first_id + done + len(part))
                if len(self._open_ids) >= tree_max:
                    self._seal_tree(0)
            done += len(part)

    def emit_direct(
        self, task: int, values: Row | list[Any], message_id: Any = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit to one task."""
        self._emit(values, message_id, stream, task)

    def emit_arrow(
        self, batch: Any, message_id: Any = None, stream: str = DEFAULT_STREAM, *, task: int | None = None
    ) -> None:
        """Emit a RecordBatch: one message, in a tree of its own."""
        self.check_open()
        out, rows = self._emitter.streams.columns(batch, stream, direct_to=task)
        self.emitted += 1
        failures = self._retries.failures_of(message_id) if self._suspects and message_id is not None else 0
        if message_id is not None and (failures or out.consumed):
            self._emitter.counters.replayed += bool(failures)
            self._track_columns(out, task, rows, message_id, failures)
            return
        self._seal_tree(0)  # keep the order of the emits
        self._emitter.put_columns(UNTRACKED, out, task, rows, None)
        self._loose = None
        if message_id is not None:
            emissions = [Emission(rows.batch, stream, task)] if self._keep_values else None
            self.settled_at_once.append(Tree([message_id], emissions, 0, self._monotonic()))

    def close(self) -> None:
        """From now on, an emit is an error."""
        self.closed = True
        self._arity = -1

    def finish(self) -> None:
        """Nothing more to emit: `next_tuple` is not called again."""
        self.finished = True
        self._wake()

    def wake(self) -> None:
        """There is something new: call `next_tuple` now instead of after the wait."""
        self._wake()

    async def drain(self) -> None:
        self.flush()
        await self._outbox.unblocked()

    def replay(self, message_id: Any, emission: Emission, failures: int) -> None:
        """Emit a message again, in a tree of its own."""
        self._emitter.counters.replayed += 1
        out = self._emitter.streams[emission.stream]
        if is_batch(emission.values):
            rows = ColumnRows(emission.values, out.bare)
            self._track_columns(out, emission.direct, rows, message_id, failures)
            return
        self._seal_tree(0)
        self._track(out, emission.direct, emission.values, message_id, emission)
        self._seal_tree(failures)

    def dead_letter(self, settled: Settled, failure: Failure, failures: int) -> None:
        """Send a message that has failed too often to the dead-letter stream, if it has a consumer."""
        self._emitter.counters.dead_lettered += 1
        out = self._emitter.streams.get(DEAD_LETTER_STREAM)
        if out is None or not out.consumed or settled.emission is None:
            return
        emission = settled.emission
        row = (settled.message_id, emission.stream, emission.values, failure.reason, failure.error, failures)
        items, marks = self._emitter.emit_buffer(UNTRACKED).buffer(out)
        items.append(out.item(row))
        marks.append(None)

    def _before_watermark(self) -> None:
        self.flush()

    def flush(self) -> None:
        """Seal the open tree, send, inform the ackers."""
        self._seal_tree(0)
        self._loose = None
        self._items, self._marks = [], []  # an idle spout keeps no values
        if self._inits and not self._posting:
            self._posting = True
            self._after_round(self._post_inits)
        self._emitter.flush()

    def _emit(self, values: Any, message_id: Any, stream: str, task: int | None) -> None:
        self.check_open()
        out, row = self._emitter.streams.row(values, stream, direct_to=task)
        if message_id is None:
            self.emitted += 1
            self._seal_tree(0)  # keep the order of the emits
            self._emitter.emit_buffer(UNTRACKED).buffer(out, task)[0].append(out.item(row))
            return
        self.emitted += 1
        emission = Emission(row, stream, task) if self._keep_values else None
        failures = self._retries.failures_of(message_id) if self._suspects else 0
        if failures:
            self._emitter.counters.replayed += 1
            self._seal_tree(0)
            self._track(out, task, row, message_id, emission)
            self._seal_tree(failures)
        elif not out.consumed:
            self._emitter.emit_buffer(UNTRACKED).buffer(out, task)[0].append(out.item(row))  # counted as emitted
            emissions = [emission] if emission is not None else None
            self.settled_at_once.append(Tree([message_id], emissions, 0, self._monotonic()))
        else:
            self._track(out, task, row, message_id, emission)
            if len(self._open_ids) >= self._tree_max:
                self._seal_tree(0)

    def _open_loose(self) -> list[Any]:
        """Where items of the default stream without a message id are appended."""
        assert self._default is not None  # noqa: S101 - for the type checker: the fast path is closed without it
        self._seal_tree(0)  # keep the order of the emits
        self._loose = self._emitter.emit_buffer(UNTRACKED).buffer(self._default)[0]
        return self._loose

    def _open_tree(self) -> None:
        """Begin a tree."""
        self._items = []
        self._emit_buffer = None
        self._loose = None  # later untracked rows are sent after this tree

    def _root(self) -> int:
        """Without ackers a tree has no root: nothing is tracked, and it is settled when it is sealed."""
        return self._ids.take() if self._ackers else UNTRACKED

    def _track(self, out: OutStream, task: int | None, row: Row, message_id: Any, emission: Emission | None) -> None:
        """A message that is not a plain emit: on another stream, to one task, or again."""
        if not self._open_ids:
            self._open_tree()
        emit_buffer = self._emit_buffer
        if emit_buffer is None:
            emit_buffer = self._emit_buffer = self._begin_mix()
        items, marks = emit_buffer.buffer(out, task)
        items.append(out.item(row))
        marks.append(len(self._open_ids))
        self._open_ids.append(message_id)
        if emission is not None:
            self._open_emissions.append(emission)

    def _track_columns(
        self, out: OutStream, task: int | None, rows: ColumnRows, message_id: Any, failures: int
    ) -> None:
        """A batch of columns, in a tree of its own."""
        self._seal_tree(0)
        emissions = [Emission(rows.batch, out.origin.stream, task)] if self._keep_values else None
        self._send(EmitBuffer.of_columns(self._root(), out, task, rows, 0), [message_id], emissions, failures)

    def _begin_mix(self) -> EmitBuffer:
        """The open tree gets an emit buffer, with marks and emissions of its own."""
        emit_buffer = EmitBuffer(self._root())
        if self._default is not None:
            kept = self._items
            self._items, self._marks = emit_buffer.buffer(self._default)
            self._items += kept
            self._marks += range(len(kept))
            if self._keep_values:
                self._open_emissions += KeptValues(kept, self._bare)
        return emit_buffer

    def _mix(self, values: Row) -> None:
        """The next item of the default stream is in a mixed tree."""
        self._marks.append(len(self._open_ids))
        if self._keep_values:
            self._open_emissions.append(Emission(values, DEFAULT_STREAM))

    def _mix_chunk(self, items: list[Any]) -> None:
        """The next items of the default stream are in a mixed tree."""
        begin = len(self._open_ids)
        self._marks += range(begin, begin + len(items))
        if self._keep_values:
            self._open_emissions += KeptValues(items, self._bare)

    def _seal_tree(self, failures: int) -> None:
        ids = self._open_ids
        if not ids:
            return
        self._open_ids = []
        emit_buffer, self._emit_buffer = self._emit_buffer, None
        if emit_buffer is None:
            self._send_tree(self._items, ids)
        else:
            emissions, self._open_emissions = self._open_emissions, []
            self._send(emit_buffer, ids, emissions or None, failures)

    def _send_tree(self, items: list[Any], ids: Sequence[Any]) -> None:
        """A tree of new messages that all go to the default stream."""
        emit_buffer = EmitBuffer(self._root(), self._default, items, range(len(ids)))
        self._send(emit_buffer, ids, KeptValues(items, self._bare) if self._keep_values else None, 0)

    def _send(
        self, emit_buffer: EmitBuffer, ids: Sequence[Any], emissions: Sequence[Emission] | None, failures: int
    ) -> None:
        self._loose = None
        emitter = self._emitter
        emitter.counters.trees += 1
        emitter.seal()  # keep the order of the emits
        root = emit_buffer.root
        if root == UNTRACKED:
            emitter.seal_buffer(emit_buffer)
            self.settled_at_once.append(Tree(ids, emissions, failures, self._monotonic()))
            return
        root = emit_buffer.root = single_root(root) if len(ids) == 1 else shared_root(root)
        self._pending.add(root, ids, emissions, failures, self._monotonic())
        emitter.seal_buffer(emit_buffer)
        # The edges of a tree's first segments go with its INIT, not with a turn's acks. Without an edge (a custom
        # grouping chose no target, or no consumer is left) the ledger finds the tree complete.
        self._inits.append((root, emitter.acks.xors.pop(root, 0)))

    def void(self) -> None:
        """All trees that were sent so far count as failed: the ackers need not keep them."""
        self._post_inits()  # first, or the INITs would reach the ackers after Forget
        for mailbox in self._ackers:
            mailbox.post(Forget(self._task_id))

    def _post_inits(self) -> None:
        self._posting = False
        inits, self._inits = self._inits, []
        ackers = self._ackers
        if not inits:
            return
        if len(ackers) == 1:
            ackers[0].post(Init(self._task_id, inits))
        else:
            for i, mailbox in enumerate(ackers):
                mine = [item for item in inits if item[0] % len(ackers) == i]
                if mine:
                    mailbox.post(Init(self._task_id, mine))
