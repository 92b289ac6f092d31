"""Spout collector: a spout emits into it; its messages become trees.

    emit ─► open tree: ids, items ─► full, or the turn ends ─► added to pending ─► segments ─► INIT, after the data

1. The messages of one turn, up to `topology.acker.tree.max.messages`, share one root; each has its index. A message
   that has failed before gets a tree of its own.
2. As long as all messages of the open tree are new and go to the default stream, their anchors and emissions follow
   from the items: they are made when the tree is sealed, or not at all. Else the tree is *mixed*, and has an emit
   buffer.
3. Values are kept only where they are needed: for replay by the framework, and for spouts that want their values back.
4. Without ackers a tree has no root: nothing is tracked, and its messages are acked at once (when the call that emitted
   them returns), as is a message without a consumer.
5. With `topology.trace.context`, messages that are emitted in different spans share no tree (contexts.py). Every emit
   takes the slow path then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...acker import Emission, Forget, IdSource, Init, Pending, Retries, Tree, shared_root, single_root
from ...topology import DEFAULT_STREAM, ColumnRows, Row, is_batch
from .collectors import TaskCollector
from .emitter import EmitBuffer, Emitter
from .lineage import UNTRACKED
from .open_tree import KeptValues, OpenTree

if TYPE_CHECKING:
    from ...actors import Inbox
    from ...topology import Item, MessageId, RecordBatch, Value
    from .contexts import CurrentContext
    from .out_streams import OutStream
    from .outbox import Outbox


class SpoutTaskCollector(TaskCollector):
    """For spouts. `wake` is called when the spout says that there is something new, or that it has finished.

    `trees`: to the ackers. `keep_values`: of open messages. `tree_max`: the most messages of a tree.
    """

    def __init__(
        self,
        emitter: Emitter,
        outbox: Outbox,
        report: Callable[[BaseException], None],
        trees: Trees,
        retries: Retries,
        wake: Callable[[], None],
        *,
        keep_values: bool,
        tree_max: int,
        context: CurrentContext | None = None,
    ) -> None:
        super().__init__(emitter, outbox, report)
        self.emitted = 0
        self.finished = False
        self.trees = trees
        self._retries = retries
        self._suspects = retries.suspects
        self._wake = wake
        default = emitter.streams.get(DEFAULT_STREAM)
        plain = default is not None and default.consumed and not default.direct and context is None
        self.takes_chunks = plain
        """Can `emit_chunk` be used?"""
        # The fast path of `emit`: -1 sends every emit through the slow path, which checks everything.
        self._default = default if plain else None
        self._arity = default.arity if default is not None and plain else -1
        self._bare = self._arity == 1
        self._tree = OpenTree(self._default, tree_max, context, keeps=keep_values)
        self._loose: list[Item] | None = None  # items without a message id that wait for the turn's end

    @property
    def context(self) -> CurrentContext | None:
        """What the present span is, if that counts."""
        return self._tree.current

    @property
    def open_messages(self) -> int:
        """Messages emitted and not yet in `pending`."""
        return len(self._tree.ids)

    @property
    def dirty(self) -> bool:
        """Is there anything to flush?"""
        return bool(self._tree.ids or self.trees.inits.waiting or self._emitter.dirty)

    @property
    def emitted_at_all(self) -> int:
        """Messages and rows that were emitted, replays counted each time."""
        return self.emitted + self._emitter.counters.replayed

    def emit(self, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple; tracked if it has a message id."""
        if stream == DEFAULT_STREAM and type(values) is tuple and len(values) == self._arity and not self._suspects:
            if message_id is None:
                (self._loose if self._loose is not None else self._open_loose()).append(
                    values[0] if self._bare else values
                )
                self.emitted += 1
                return
            tree = self._tree
            ids = tree.ids
            if not ids:
                tree.items, self._loose = [], None  # later untracked rows are sent after this tree
            elif tree.emit_buffer is not None:
                tree.mix(values)
            tree.items.append(values[0] if self._bare else values)
            ids.append(message_id)
            self.emitted += 1
            if len(ids) >= tree.size_max:
                self._seal_tree(0)
            return
        self._emit(values, message_id, stream, None)

    def emit_chunk(self, items: list[Item], first_id: int | None) -> None:
        """Emit checked items of the default stream; message ids from `first_id` on, None: untracked."""
        self.emitted += len(items)
        if first_id is None:
            (self._loose if self._loose is not None else self._open_loose()).extend(items)
            return
        tree = self._tree
        done, most = 0, tree.size_max
        while done < len(items):
            if not tree.ids and len(items) - done >= most:  # a full tree: its ids stay a range
                part = items[done : done + most] if len(items) > most else items
                self._send_tree(part, range(first_id + done, first_id + done + most))
            else:
                if not tree.ids:
                    tree.items, self._loose = [], None  # later untracked rows are sent after this tree
                part = items[done : done + most - len(tree.ids)]
                if tree.emit_buffer is not None:  # rows before them took the slow path
                    tree.mix_chunk(part, bare=self._bare)
                tree.items += part
                tree.ids += range(first_id + done, first_id + done + len(part))
                if len(tree.ids) >= most:
                    self._seal_tree(0)
            done += len(part)

    def emit_direct(
        self, task: int, values: Row | list[Value], message_id: MessageId = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit to one task."""
        self._emit(values, message_id, stream, task)

    def emit_arrow(
        self, batch: RecordBatch, message_id: MessageId = None, stream: str = DEFAULT_STREAM, *, task: int | None = None
    ) -> None:
        """Emit a RecordBatch: one message, in a tree of its own."""
        self.check_open()
        out, rows = self._emitter.streams.columns(batch, stream, direct_to=task)
        self.emitted += 1
        failures = self._retries.failures_of(message_id) if self._suspects and message_id is not None else 0
        if message_id is not None and (failures or out.consumed):
            self._emitter.counters.replayed += bool(failures)
            context = "" if self._tree.current is None else self._tree.current.text()
            self._track_columns(out, task, rows, message_id, failures, context)
            return
        self._seal_tree(0)  # keep the order of the emits
        self._emitter.put_columns(UNTRACKED, out, task, rows, None)
        self._loose = None
        if message_id is not None:
            self.trees.settle_at_once(message_id, Emission(rows.batch, stream, task) if self._tree.keeps else None)

    def close(self) -> None:
        """From now on, an emit is an error."""
        super().close()
        self._arity = -1

    def finish(self) -> None:
        """Nothing more to emit: `next_tuple` is not called again."""
        self.finished = True
        self._wake()

    def wake(self) -> None:
        """There is something new: call `next_tuple` now instead of after the wait."""
        self._wake()

    def replay(self, message_id: MessageId, emission: Emission, failures: int) -> None:
        """Emit a message again, in a tree of its own."""
        self._emitter.counters.replayed += 1
        out = self._emitter.streams[emission.stream]
        if is_batch(emission.values):
            rows = ColumnRows(emission.values, out.bare)
            self._track_columns(out, emission.direct, rows, message_id, failures)
            return
        self._seal_tree(0)
        self._tree.context = ""  # it keeps that of the first time
        self._track(out, emission.direct, emission.values, message_id, emission)
        self._seal_tree(failures)

    def _before_watermark(self) -> None:
        self.flush()

    def flush(self) -> None:
        """Seal the open tree, send, inform the ackers."""
        tree = self._tree
        if tree.ids:
            self._seal_tree(0)
        self._loose = None
        tree.items, tree.anchors = [], []  # an idle spout keeps no values
        inits = self.trees.inits
        if inits.waiting and not inits.posting:
            inits.posting = True
            inits.after_round(inits.post)
        self._emitter.flush()

    def _emit(self, values: Row | list[Value], message_id: MessageId, stream: str, task: int | None) -> None:
        self.check_open()
        out, row = self._emitter.streams.row(values, stream, direct_to=task)
        self.emitted += 1
        if message_id is None:
            self._seal_tree(0)  # keep the order of the emits
            self._emitter.emit_buffer(UNTRACKED).buffer(out, task)[0].append(out.item(row))
            return
        emission = Emission(row, stream, task) if self._tree.keeps else None
        failures = self._retries.failures_of(message_id) if self._suspects else 0
        if self._tree.current is not None:
            self._enter(self._tree.current.text())
        if failures:
            self._emitter.counters.replayed += 1
            self._seal_tree(0)
            self._track(out, task, row, message_id, emission)
            self._seal_tree(failures)
        elif not out.consumed:
            self._emitter.emit_buffer(UNTRACKED).buffer(out, task)[0].append(out.item(row))  # counted as emitted
            self.trees.settle_at_once(message_id, emission)
        else:
            self._track(out, task, row, message_id, emission)
            if len(self._tree.ids) >= self._tree.size_max:
                self._seal_tree(0)

    def _enter(self, context: str) -> None:
        """The next message is emitted in this context."""
        if context != self._tree.context:
            self._seal_tree(0)
            self._tree.context = context

    def _open_loose(self) -> list[Item]:
        """Where items of the default stream without a message id are appended."""
        assert self._default is not None  # noqa: S101 - for the type checker: the fast path is closed without it
        self._seal_tree(0)  # keep the order of the emits
        self._loose = self._emitter.emit_buffer(UNTRACKED).buffer(self._default)[0]
        return self._loose

    def _track(
        self, out: OutStream, task: int | None, row: Row, message_id: MessageId, emission: Emission | None
    ) -> None:
        """A message that is not a plain emit: on another stream, to one task, or again."""
        tree = self._tree
        if not tree.ids:
            tree.items, self._loose = [], None  # later untracked rows are sent after this tree
        emit_buffer = tree.emit_buffer
        if emit_buffer is None:
            emit_buffer = tree.begin_mix(EmitBuffer(self.trees.new_root()))
        tree.add(emit_buffer, out, task, row, message_id, emission)

    def _track_columns(
        self,
        out: OutStream,
        task: int | None,
        rows: ColumnRows,
        message_id: MessageId,
        failures: int,
        context: str = "",
    ) -> None:
        """A batch of columns, in a tree of its own."""
        self._seal_tree(0)
        emissions = [Emission(rows.batch, out.origin.stream, task)] if self._tree.keeps else None
        emit_buffer = EmitBuffer.of_columns(self.trees.new_root(), out, task, rows, 0)
        self._loose = None
        self.trees.send(emit_buffer, [message_id], emissions, failures, context)

    def _seal_tree(self, failures: int) -> None:
        tree = self._tree
        ids = tree.ids
        if not ids:
            return
        tree.ids = []
        emit_buffer = tree.emit_buffer
        if emit_buffer is None:
            self._send_tree(tree.items, ids)
            return
        tree.emit_buffer = None
        emissions, tree.emissions = tree.emissions, []
        self._loose = None
        self.trees.send(emit_buffer, ids, emissions or None, failures, tree.context)

    def _send_tree(self, items: list[Item], ids: Sequence[MessageId]) -> None:
        """A tree of new messages that all go to the default stream."""
        emit_buffer = EmitBuffer(self.trees.new_root(), self._default, items, range(len(ids)))
        self._loose = None
        self.trees.send(emit_buffer, ids, KeptValues(items, self._bare) if self._tree.keeps else None, 0)


class Trees:
    """The trees of one spout task. `settled_at_once`: trees that no acker tracks."""

    __slots__ = ("_emitter", "_ids", "_monotonic", "_pending", "inits", "settled_at_once")

    def __init__(
        self, emitter: Emitter, ids: IdSource, pending: Pending, inits: Inits, monotonic: Callable[[], float]
    ) -> None:
        self.inits = inits
        self.settled_at_once: list[Tree] = []
        self._emitter = emitter
        self._ids = ids
        self._pending = pending
        self._monotonic = monotonic

    def new_root(self) -> int:
        """The root of the next tree."""
        return self._ids.take() if self.inits.ackers else UNTRACKED

    def settle_at_once(self, message_id: MessageId, emission: Emission | None) -> None:
        """A message without a consumer."""
        emissions = None if emission is None else [emission]
        self.settled_at_once.append(Tree([message_id], emissions, 0, self._monotonic()))

    def send(
        self,
        emit_buffer: EmitBuffer,
        ids: Sequence[MessageId],
        emissions: Sequence[Emission] | None,
        failures: int,
        context: str = "",
    ) -> None:
        """Send a tree, after all that was emitted before. `context`: in which it was emitted (contexts.py)."""
        emitter, tracer = self._emitter, self._emitter.acks.tracer
        emitter.counters.trees += 1
        emitter.seal()
        root = emit_buffer.root
        if root == UNTRACKED:
            emitter.seal_buffer(emit_buffer)
            self.settled_at_once.append(Tree(ids, emissions, failures, self._monotonic()))
            return
        if failures or context or tracer.wanted:
            root = tracer.chosen(root, ids, failures, context)
        root = emit_buffer.root = single_root(root) if len(ids) == 1 else shared_root(root)
        self._pending.add(root, ids, emissions, failures, self._monotonic())
        traced = root & tracer.mask == tracer.mask
        if traced:
            tracer.emitted(root, ids, failures, context)
        emitter.seal_buffer(emit_buffer)
        if traced:
            tracer.sent()
        # The edges of a tree's first segments go with its INIT, not with a turn's acks. Without an edge (a custom
        # grouping chose no target, or no consumer is left) the ledger finds the tree complete.
        self.inits.waiting.append((root, emitter.acks.xors.pop(root, 0)))


class Inits:
    """The INITs of one spout task: `waiting` for `post`, at the end of the round, after the data.

    `posting`: is the post planned?
    """

    __slots__ = ("_task_id", "ackers", "after_round", "posting", "waiting")

    def __init__(
        self, task_id: int, ackers: Sequence[Inbox], after_round: Callable[[Callable[[], None]], None]
    ) -> None:
        self.ackers = ackers
        self.waiting: list[tuple[int, int]] = []
        self._task_id = task_id
        self.after_round = after_round
        self.posting = False

    def void(self) -> None:
        """All trees that were sent so far count as failed: the ackers need not keep them."""
        self.post()  # first, or the INITs would reach the ackers after Forget
        for mailbox in self.ackers:
            mailbox.post(Forget(self._task_id))

    def post(self) -> None:
        """Post what waits."""
        self.posting = False
        inits, self.waiting = self.waiting, []
        ackers = self.ackers
        if not inits:
            return
        if len(ackers) == 1:
            ackers[0].post(Init(self._task_id, inits))
        else:
            for i, mailbox in enumerate(ackers):
                mine = [item for item in inits if item[0] % len(ackers) == i]
                if mine:
                    mailbox.post(Init(self._task_id, mine))
