"""Asks: what a question to one actor needs besides its mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .deadlines import Deadlines
    from .messages import Answer, Message
    from .ref import Ref


class Asks:
    """`deadlines`: of the questions with the system's timeout; None if they wait without limit.

    `answer` is set while the actor may answer at once (see Ref.ask); `at_once` counts such answers in a row. `error`
    was raised by the last one: the actor's asyncio task raises it again.
    """

    __slots__ = ("answer", "at_once", "deadlines", "error", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, deadlines: Deadlines[Ref] | None) -> None:
        self.loop = loop
        self.deadlines = deadlines
        self.answer: Callable[[Message], Answer] | None = None
        self.at_once = 0
        self.error: BaseException | None = None
