"""Time messages: a task that has lost the watermarks it received requests them again.

    WATERMARK REQUEST  [task, 8, requesting task]

Watermarks are sent like rows. A task whose worker was restarted has lost those that came before: it sends a request to
its input tasks on their control lanes, and they send their watermarks again, after the rows that they have sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...transport.codec import MessageCodec, ProtocolError, pack_value

if TYPE_CHECKING:
    from ...actors import Message
    from ...transport.codec import Received

_WATERMARK_REQUEST: Final = 8  # 1 to 7 are those of ackers and backpressure


@dataclass(frozen=True, slots=True)
class WatermarkRequest:
    """Send your watermark to task `task` again."""

    task: int


def _pack(task_id: int, message: Message) -> bytes:
    if type(message) is WatermarkRequest:
        return pack_value((task_id, _WATERMARK_REQUEST, message.task))
    raise TypeError(f"{message!r} does not travel to another worker")


def _unpack(item: Received) -> tuple[int, object]:
    if type(item) is not tuple or len(item) != 3 or item[1] != _WATERMARK_REQUEST:
        raise ProtocolError(f"not a watermark request: {item!r:.100}")
    task_id, _, asking = item
    if type(task_id) is not int or type(asking) is not int:
        raise ProtocolError(f"a watermark request without a task: {item!r:.100}")
    return task_id, WatermarkRequest(asking)


TIME_MESSAGES: Final = MessageCodec(_pack, _unpack, types=(WatermarkRequest,), kinds=(_WATERMARK_REQUEST,))
"""Their codec."""
