"""What the kernel itself puts into mailboxes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .ref import Ref


@dataclass(frozen=True, slots=True)
class Terminated:
    """Death watch: a watched actor has ended; `error` says why, if it was not asked to (stop, kill)."""

    ref: Ref
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ChildEscalated:
    """A child failed more often than its policy allows, or its policy says so. To its parent, on the control lane."""

    ref: Ref
    error: BaseException


@dataclass(frozen=True, slots=True)
class Stop:
    """End in order: accept no more data, process what was accepted, then stop. To any actor, on the control lane."""


class Reply(Protocol):
    """Where an answer goes: an `asyncio.Future`, or what has this of one. It is given one answer."""

    def done(self) -> bool:
        """Does nobody wait for it (any more)?"""
        ...

    def set_result(self, result: Any, /) -> None:
        """The answer."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Why there is none."""
        ...


class Question:
    """An `ask` in the mailbox: the message, and where its reply goes."""

    __slots__ = ("message", "reply")

    def __init__(self, message: Any, reply: Reply) -> None:
        self.message = message
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Begun:
    """In the place of a question's message: `receive` was called with it, and what it gave back is to be awaited."""

    message: Any
    value: Any

    def close(self) -> None:
        """Nobody will."""
        if asyncio.iscoroutine(self.value):
            self.value.close()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was accepted and never processed. `reason` says why."""

    path: str
    message: Any
    reason: str
