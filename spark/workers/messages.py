"""Messages between a slot (a Spark task that has one worker) and the parent.

parent                                       slot
order ── in the closure of the job ────────► it dials, and shows itself
              ◄── SlotReady, SlotLines, SlotEnded ──  to the actor "slots"
              ── SlotKill ─────────────────►          to the actor "slot"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...transport import register_record

SLOTS: Final = "slots"
"""The parent's actor, to which slots speak."""

SLOT: Final = "slot"
"""A slot's actor."""


@dataclass(frozen=True, slots=True)
class SlotReady:
    """It is there, and starts its worker. The answer: is it still wanted?"""

    slot: str
    pid: int
    node: str


@dataclass(frozen=True, slots=True)
class SlotLines:
    """What its worker has printed: (stream, line). Marked, as of any child."""

    slot: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SlotEnded:
    """Its worker has ended, with this exit code. `why`: if something else has ended it."""

    slot: str
    code: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class SlotKill:
    """End the worker: at once, or ask it to (SIGTERM)."""

    at_once: bool


def register() -> None:
    """Let these messages travel, in this process."""
    for record in (SlotReady, SlotLines, SlotEnded, SlotKill):
        register_record(record, f"aiostorm.{record.__name__}")
