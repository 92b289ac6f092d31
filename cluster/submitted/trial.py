"""Trial: a rebalance, or new code, is kept when it runs, and taken back when it does not.

    begin(generation) ─► look ─┬─ it runs ─► confirm: what was before it is not needed any more
                               ╰─ it has failed before it ran ─► take_back: another generation, with the plan before

1. The order is in the store, with what was before it: the next parent goes on with the trial.
2. Each write names the generation that it is about: an order that came in between holds.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..nimbus import OrderError, confirm, take_back

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..coordination import Coordination
    from ..nimbus import TopologyRecord

log = logging.getLogger("aiostorm.parent")

RUNS = ("ACTIVE", "INACTIVE")


class Trial:
    """The trial of the plan that a parent runs. `look` raises UnavailableError and SessionLostError."""

    def __init__(self, coordination: Coordination, clock: Clock, name: str) -> None:
        self._coordination = coordination
        self._clock = clock
        self._name = name
        self._generation = 0  # 0: there is no trial

    def begin(self, topology: TopologyRecord, generation: int) -> None:
        """The parent begins to run this generation."""
        on_trial = topology.former is not None and topology.generation == generation
        self._generation = generation if on_trial else 0

    async def look(self, state: str, failure: str) -> None:
        """How the topology is now: keep the plan or take it back, once."""
        generation = self._generation
        if not generation or (state not in RUNS and not failure):
            return
        try:
            if failure:
                log.error("%s: generation %d does not run, and is taken back: %s", self._name, generation, failure)
                await take_back(self._coordination, self._name, generation, failure, self._clock.now())
            else:
                await confirm(self._coordination, self._name, generation)
        except OrderError as error:  # it is being killed
            log.debug("%s: the trial of generation %d ends: %s", self._name, generation, error)
        if self._generation == generation:  # else another trial has begun meanwhile
            self._generation = 0
