"""Time messages: a task that has lost what it was told asks again.

    ASK TIME  [task, 8, who asks]

Marks travel as rows do. A task whose worker began anew has lost those that came before: it asks its input tasks on
their control lanes, and they tell it again how far they are, behind what they have sent it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...transport import MessageCodec, ProtocolError, pack_value

_WATERMARK_REQUEST: Final = 8  # 1 to 7 are those of ackers and backpressure


@dataclass(frozen=True, slots=True)
class WatermarkRequest:
    """Send task `task` again how far event time is here."""

    task: int


def _pack(task_id: int, message: Any) -> bytes:
    if type(message) is WatermarkRequest:
        return pack_value((task_id, _WATERMARK_REQUEST, message.task))
    raise TypeError(f"{message!r} does not travel to another worker")


def _unpack(item: Any) -> tuple[int, Any]:
    if type(item) is not tuple or len(item) != 3 or item[1] != _WATERMARK_REQUEST:
        raise ProtocolError(f"no message about time: {item!r:.100}")
    task_id, _, asking = item
    if type(task_id) is not int or type(asking) is not int:
        raise ProtocolError(f"a question about time of no task: {item!r:.100}")
    return task_id, WatermarkRequest(asking)


TIME_MESSAGES: Final = MessageCodec(_pack, _unpack, types=(WatermarkRequest,), kinds=(_WATERMARK_REQUEST,))
"""Their codec."""
