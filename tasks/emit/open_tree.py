"""Open tree: the messages of a spout that are in no tree yet; the next one is added to them (spout_collector.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from ...acker import Emission
from ...topology import DEFAULT_STREAM

if TYPE_CHECKING:
    from ...topology import Anchor, Item, MessageId, Row
    from .contexts import CurrentContext
    from .emitter import EmitBuffer
    from .out_streams import OutStream


class OpenTree:
    """The tree to which the next message is added. `ids`: of its messages; `items`: those of the default stream.

    `emit_buffer`: of a mixed tree; then `anchors` and `emissions` are those of all its messages. `size_max`: messages.
    `context`: in which its messages are emitted, as text; empty: in none. `current` tells it; None: it does not count.
    """

    __slots__ = (
        "_default",
        "anchors",
        "context",
        "current",
        "emissions",
        "emit_buffer",
        "ids",
        "items",
        "keeps",
        "size_max",
    )

    def __init__(
        self, default: OutStream | None, size_max: int, current: CurrentContext | None, *, keeps: bool
    ) -> None:
        self._default = default
        self.keeps = keeps
        self.size_max = size_max
        self.context = ""
        self.current = current
        self.ids: list[MessageId] = []
        self.items: list[Item] = []
        self.anchors: list[Anchor] = []
        self.emissions: list[Emission] = []
        self.emit_buffer: EmitBuffer | None = None

    def begin_mix(self, emit_buffer: EmitBuffer) -> EmitBuffer:
        """The tree gets this emit buffer, with anchors and emissions of its own."""
        self.emit_buffer = emit_buffer
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

    def mix_chunk(self, items: list[Item], *, bare: bool) -> None:
        """The next items of the default stream are in a mixed tree."""
        begin = len(self.ids)
        self.anchors += range(begin, begin + len(items))
        if self.keeps:
            self.emissions += KeptValues(items, bare)

    def add(
        self,
        emit_buffer: EmitBuffer,
        out: OutStream,
        task: int | None,
        row: Row,
        id_: MessageId,
        emission: Emission | None,
    ) -> None:
        """A message of a mixed tree that is not a plain emit: on another stream, to one task, or again."""
        items, anchors = emit_buffer.buffer(out, task)
        items.append(out.item(row))
        anchors.append(len(self.ids))
        self.ids.append(id_)
        if emission is not None:
            self.emissions.append(emission)


class KeptValues(Sequence[Emission]):
    """The emissions of a tree whose messages all went to the default stream: made from its items on access."""

    __slots__ = ("_bare", "_items")

    def __init__(self, items: Sequence[Item], bare: bool) -> None:
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
