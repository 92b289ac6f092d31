"""Trees: the messages of a spout task, from an emit to the ackers.

    open tree: ids, items ─► full, or the turn ends ─► added to pending ─► segments ─► INIT, after the data

1. The messages of one turn, up to `topology.acker.tree.max.messages`, share one root; each has its index. A message
   that has failed before gets a tree of its own.
2. As long as all messages of the open tree are new and go to the default stream, their anchors and emissions follow
   from the items: they are made when the tree is sealed, or not at all. Else the tree is *mixed*, and has an emit
   buffer.
3. Values are kept only where they are needed: for replay by the framework, and for spouts that want their values back.
4. Without ackers a tree has no root: nothing is tracked, and its messages are acked at once, as is a message without a
   consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from ...acker import Emission, Forget, IdSource, Init, Pending, Tree, shared_root, single_root
from ...actors import Inbox
from ...topology import DEFAULT_STREAM, Row
from .emitter import EmitBuffer, Emitter
from .lineage import UNTRACKED
from .out_streams import OutStream


class OpenTree:
    """The tree to which the next message is added. `ids`: of its messages; `items`: those of the default stream.

    `emit_buffer`: of a mixed tree; then `anchors` and `emissions` are those of all its messages. `size_max`: messages.
    """

    __slots__ = ("_default", "anchors", "emissions", "emit_buffer", "ids", "items", "keeps", "size_max")

    def __init__(self, default: OutStream | None, size_max: int, *, keeps: bool) -> None:
        self._default = default
        self.keeps = keeps
        self.size_max = size_max
        self.ids: list[Any] = []
        self.items: list[Any] = []
        self.anchors: list[Any] = []
        self.emissions: list[Emission] = []
        self.emit_buffer: EmitBuffer | None = None

    def begin_mix(self, root: int) -> EmitBuffer:
        """The tree gets an emit buffer, with anchors and emissions of its own."""
        emit_buffer = self.emit_buffer = EmitBuffer(root)
        default = self._default
        if default is not None:
            items = self.items
            self.items, self.anchors = emit_buffer.buffer(default)
            self.items += items
            self.anchors += range(len(items))
            if self.keeps:
                self.emissions += KeptValues(items, default.bare)
        return emit_buffer

    def mix(self, values: Row) -> None:
        """The next item of the default stream is in a mixed tree."""
        self.anchors.append(len(self.ids))
        if self.keeps:
            self.emissions.append(Emission(values, DEFAULT_STREAM))

    def mix_chunk(self, items: list[Any], *, bare: bool) -> None:
        """The next items of the default stream are in a mixed tree."""
        begin = len(self.ids)
        self.anchors += range(begin, begin + len(items))
        if self.keeps:
            self.emissions += KeptValues(items, bare)

    def add(
        self, emit_buffer: EmitBuffer, out: OutStream, task: int | None, row: Row, id_: Any, emission: Emission | None
    ) -> None:
        """A message of a mixed tree that is not a plain emit: on another stream, to one task, or again."""
        items, anchors = emit_buffer.buffer(out, task)
        items.append(out.item(row))
        anchors.append(len(self.ids))
        self.ids.append(id_)
        if emission is not None:
            self.emissions.append(emission)


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

    def settle_at_once(self, message_id: Any, emission: Emission | None) -> None:
        """A message without a consumer."""
        emissions = None if emission is None else [emission]
        self.settled_at_once.append(Tree([message_id], emissions, 0, self._monotonic()))

    def send(
        self, emit_buffer: EmitBuffer, ids: Sequence[Any], emissions: Sequence[Emission] | None, failures: int
    ) -> None:
        """Send a tree, after all that was emitted before."""
        emitter = self._emitter
        emitter.counters.trees += 1
        emitter.seal()
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


class KeptValues(Sequence[Emission]):
    """The emissions of a tree whose messages all went to the default stream: made from its items on access."""

    __slots__ = ("_bare", "_items")

    def __init__(self, items: Sequence[Any], bare: bool) -> None:
        self._items = items
        self._bare = bare

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Emission: ...
    @overload
    def __getitem__(self, at: slice) -> list[Emission]: ...
    def __getitem__(self, at: int | slice) -> Emission | list[Emission]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        item = self._items[at]
        return Emission((item,) if self._bare else item, DEFAULT_STREAM)
