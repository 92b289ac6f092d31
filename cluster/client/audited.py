"""Audited: the orders of one client over the store, in the audit log of its home folder.

1. The line is on the machine where the order was given: nimbus, which carries it out, does not know who wrote it.
2. It is a record, no guard: those who can order something over the store can also change the file.
3. Where there is no cluster nothing is written, and no folder made.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..access import AuditLog, Change
from .submission import submitter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from ...runtime import Clock
    from ..home import Home

HOME_ROLE: Final = "home"
"""Of those who order over the store: they may do everything."""


@dataclass(frozen=True, slots=True)
class OrderedBy:
    """Who gives the orders of a client of the store. `who`: empty: this user; `origin`: empty: this process."""

    who: str = ""
    role: str = HOME_ROLE
    origin: str = ""


THIS_PROGRAM: Final = OrderedBy()


class Audited:
    """The audit log of `home`, for the orders of `by`; None: their lines are written by another program."""

    def __init__(self, home: Home, by: OrderedBy | None, clock: Clock) -> None:
        self._audit = AuditLog(home.audit)
        self._by = by
        self._clock = clock

    def order(self, what: str, arguments: Mapping[str, Any]) -> AbstractAsyncContextManager[None]:
        """An order is given inside. AuditError, before that, if no line can be written."""
        by = self._by
        if by is None:
            return contextlib.nullcontext()
        who, origin = by.who or submitter(), by.origin or f"process {os.getpid()}"
        return self._audit.ordered(
            lambda result: Change(self._clock.now(), who, by.role, origin, what, arguments, result)
        )
