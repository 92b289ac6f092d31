"""The kernel's own messages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from .ref import Ref

Message: TypeAlias = Any
"""A message: any value of the code that uses actors, or one of the kernel's own."""

Answer: TypeAlias = Any
"""The return value of an actor's `receive`, as the caller of `ask` gets it."""

MaybeAwaitable: TypeAlias = Any
"""The return value of a method that is a `def` or an `async def`: a value, or an awaitable of one."""


@dataclass(frozen=True, slots=True)
class Terminated:
    """A watched actor has ended; `error` is the reason, or None if it was stopped or killed on request."""

    ref: Ref
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ChildEscalated:
    """Sent to the parent, on the control lane: a child failed too often, or its policy escalated the failure."""

    ref: Ref
    error: BaseException


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop after all accepted messages. Sent to any actor, on the control lane."""


class Reply(Protocol):
    """Where an answer goes: an `asyncio.Future`, or an object with these methods. It is set once."""

    def done(self) -> bool:
        """Is it already set or cancelled?"""
        ...

    def set_result(self, result: Answer, /) -> None:
        """Set the answer."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Set the error instead of an answer."""
        ...


class Question:
    """An `ask` in the mailbox: the message and its reply."""

    __slots__ = ("message", "reply")

    def __init__(self, message: Message, reply: Reply) -> None:
        self.message = message
        self.reply = reply


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """Replaces the message of a question for which `receive` was already called; `value` is still to be awaited."""

    message: Message
    value: MaybeAwaitable

    def close(self) -> None:
        """Close the coroutine: it will not be awaited."""
        if asyncio.iscoroutine(self.value):
            self.value.close()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was accepted but never processed. `reason` says why."""

    path: str
    message: Message
    reason: str
