"""Codecs of messages for the control lanes of tasks: each package brings one for its own messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ProtocolError

if TYPE_CHECKING:
    from .names import Received


@dataclass(frozen=True, slots=True)
class MessageCodec:
    """Encodes messages for control lanes. `unpack` returns (task id, message), or raises ProtocolError.

    `split` returns a message in parts that a link can carry. `types` are the classes, `kinds` the numbers that are
    second in an encoded message.
    """

    pack: Callable[[int, object], bytes]
    unpack: Callable[[Received], tuple[int, object]]
    split: Callable[[object], Sequence[object]] = lambda message: (message,)
    types: tuple[type[object], ...] = ()
    kinds: tuple[int, ...] = ()


class MessageCodecs:
    """The codecs of all messages that tasks of two workers send each other."""

    def __init__(self, codecs: Iterable[MessageCodec]) -> None:
        codecs = tuple(codecs)
        self.by_type = {kind: codec for codec in codecs for kind in codec.types}
        self._by_kind = {kind: codec for codec in codecs for kind in codec.kinds}

    def unpack(self, item: Received) -> tuple[int, object]:
        """The task and the message. ProtocolError."""
        codec = None
        if isinstance(item, tuple) and len(item) > 1 and type(item[1]) is int:
            codec = self._by_kind.get(item[1])
        if codec is None:
            raise ProtocolError(f"not a message for a task: {item!r:.100}")
        return codec.unpack(item)
