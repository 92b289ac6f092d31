"""Joining: how a worker joins its parent and, if it outlives it, each next one.

    WorkerJoined ─► the parent's id: it serves this parent ─── the link has another incarnation of the parent ───╮
                                  ▲                                                                              ▼
                                  ├─ another id: the next parent ◄──────────── WorkerJoined, with the worker's standing
                                  ╰─ the same id: this parent has given the worker up: `given_up`

1. The next parent may not be ready yet: the worker asks until it is answered.
2. What was sent to the last parent and not received is lost. So the standing has all that the next one needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...runtime import LIVENESS, AiostormError

if TYPE_CHECKING:
    from ...actors import ActorSystem, Ref
    from ..messages import WorkerJoined

log = logging.getLogger("aiostorm.worker")

ANSWER_S: Final = 2.0
"""How long the next parent may take to answer before it is asked again."""

AGAIN_S: Final = 0.05
"""The time between two questions to a parent that is not ready."""


class Joining:
    """`joined(id)`: the message for a parent; `id` is that of the last one, 0 for the first.

    `on_served`: is called when the next parent has answered. `outlive_s`: how long the worker lives without a parent;
    None: it ends with the first.
    """

    def __init__(
        self,
        system: ActorSystem,
        parent: Ref,
        outlive_s: float | None,
        joined: Callable[[int], WorkerJoined],
        on_served: Callable[[], None],
    ) -> None:
        self.given_up = False
        """Has the parent given this process up?"""
        self._system = system
        self._parent = parent
        self._outlive_s = outlive_s
        self._joined = joined
        self._on_served = on_served
        self._serves = 0  # the id of the parent
        self._incarnations = 0  # of the parent, on the link
        self._answered = 0  # the last of them that has answered
        self._asking: asyncio.Task[None] | None = None

    async def first(self) -> None:
        """Join the first parent. Raises the error of the last question, when there is no time left."""
        limit_s = max(LIVENESS.worker_join_timeout_s, self._outlive_s or 0.0)
        monotonic = self._system.clock.monotonic
        until_s = monotonic() + limit_s
        while not self._serves:
            try:
                await self._ask(until_s - monotonic())
            except AiostormError:
                if self._outlive_s is None or monotonic() + AGAIN_S >= until_s:
                    raise
                await self._system.clock.sleep(AGAIN_S)
        self._join_again()

    def parent_started(self) -> None:
        """The link has another incarnation of the parent."""
        self._incarnations += 1
        self._join_again()

    def _join_again(self) -> None:
        if self._serves and self._answered != self._incarnations and (self._asking is None or self._asking.done()):
            if self._outlive_s is None:
                self.given_up = True
            else:
                self._asking = self._system.guard(self._ask_next(), name="joins the next parent")

    async def _ask_next(self) -> None:
        while self._answered != self._incarnations:
            before = self._serves
            try:
                await self._ask(ANSWER_S)
            except AiostormError as error:
                log.debug("the next parent has not answered: %s", error)
                await self._system.clock.sleep(AGAIN_S)
                continue
            if self._serves == before:
                self.given_up = True
                return
            log.info("its parent was replaced: it serves the next one")
            self._on_served()

    async def _ask(self, timeout_s: float) -> None:
        """Ask the present incarnation, or the first. A later one ends the question with an error."""
        asked = max(self._incarnations, 1)
        self._serves = await self._parent.ask(self._joined(self._serves), timeout_s=timeout_s)
        self._answered = asked
