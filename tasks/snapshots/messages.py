"""Messages of snapshots: from the coordinator to every task, and from a task to the tasks that send to it.

    TAKE_SNAPSHOT, COMMIT_SNAPSHOT, ABORT_SNAPSHOT    coordinator ─► (worker ─►) task
    HOLD_SPOUTS                                       coordinator ─► (worker ─►) spout task
    ALIGNED  [source task, 9, number, receiving task]    receiving task ─► source task: send what you have held back

The incarnation says which tasks a message of the coordinator is for: each rollback builds them anew, under a greater
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...transport.codec import MessageCodec, ProtocolError, pack_value

if TYPE_CHECKING:
    from ...actors import Message
    from ...transport.codec import Received

_ALIGNED: Final = 9  # 1 to 8 are those of ackers, backpressure and event time


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Snapshot `number` begins: spout tasks save their positions and send barriers."""

    number: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class CommitSnapshot:
    """Snapshot `number` is durable: sinks commit, spouts are notified. It may come twice."""

    number: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """Snapshot `number` has failed and will never count."""

    number: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class HoldSpouts:
    """Spouts emit nothing while a sink holds too many rows (`hold`), and go on then. It may come twice."""

    hold: bool
    incarnation: int


@dataclass(frozen=True, slots=True)
class Aligned:
    """Task `task` has received barrier `number` from all its sources: what is held back for it may be sent."""

    number: int
    task: int


SNAPSHOT_KINDS: Final = frozenset({TakeSnapshot, CommitSnapshot, AbortSnapshot, Aligned})


def _pack(task_id: int, message: Message) -> bytes:
    if type(message) is Aligned:
        return pack_value((task_id, _ALIGNED, message.number, message.task))
    raise TypeError(f"{message!r} does not travel to another worker")


def _unpack(item: Received) -> tuple[int, object]:
    if type(item) is not tuple or len(item) != 4 or item[1] != _ALIGNED:
        raise ProtocolError(f"not a message that a barrier has arrived: {item!r:.100}")
    if any(type(part) is not int for part in item):
        raise ProtocolError(f"a message that a barrier has arrived has three numbers: {item!r:.100}")
    return item[0], Aligned(item[2], item[3])


SNAPSHOT_MESSAGES: Final = MessageCodec(_pack, _unpack, types=(Aligned,), kinds=(_ALIGNED,))
"""Their codec."""
