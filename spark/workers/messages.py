"""Messages between a slot (a Spark task that runs one worker) and the parent.

parent                                       slot
launch spec ── in the closure of the job ──► connects to the parent
              ◄── SlotReady, SlotLines, SlotEnded ──  to the actor "slots"
              ── SlotKill ─────────────────►          to the actor "slot"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...transport import register_record

SLOTS: Final = "slots"
"""The parent's actor for messages of slots."""

SLOT: Final = "slot"
"""A slot's actor."""


@dataclass(frozen=True, slots=True)
class SlotReady:
    """The slot starts its worker. The answer: whether it is still wanted."""

    slot: str
    pid: int
    node: str


@dataclass(frozen=True, slots=True)
class SlotLines:
    """Lines that its worker has printed: (stream, line), with the prefixes of a child's log."""

    slot: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SlotEnded:
    """Its worker has ended with this exit code. `why`: the reason, if it did not end by itself."""

    slot: str
    code: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class SlotKill:
    """End the worker: kill it at once, or terminate it (SIGTERM)."""

    at_once: bool


def register() -> None:
    """Register these messages in this process."""
    for record in (SlotReady, SlotLines, SlotEnded, SlotKill):
        register_record(record, f"aiostorm.{record.__name__}")
