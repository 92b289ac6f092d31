"""Updates: settings of a topology that are changed while it runs, and hold until it ends.

    order ─► /topologies/NAME: updates, number ─► begin: a topology starts with them
                                                ╰► follow: one that runs takes over those that are new ─┬─► number
                                                                         it cannot: refuse_update ◄─────╯

1. They are in the store: each later parent begins with them, also one that adopts workers.
2. What the order could not know (the topology, and the settings in its code) is checked here. What cannot be taken over
   is taken back: the settings that hold go on to hold, in the store, too.
3. If a topology cannot start with them, it starts without, and they are tried again when it runs: then it is said why.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...topology import Config, ConfigError, TopologyError
from ..nimbus import OrderError, refuse_update

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...runtime import Clock
    from ..coordination import Coordination
    from ..nimbus import Setting, TopologyRecord
    from ..running_topology import RunningTopology

log = logging.getLogger("aiostorm.parent")


class Updates:
    """Of one parent. `number`: of the last update that was dealt with. `follow` raises UnavailableError."""

    def __init__(self, coordination: Coordination, clock: Clock, name: str) -> None:
        self.number = 0
        self._coordination = coordination
        self._clock = clock
        self._name = name
        self._holds: dict[str, Setting] = {}
        self._aside = 0  # the update without which the topology starts; 0: none

    def begin(self, topology: TopologyRecord) -> Config | Mapping[str, Setting]:
        """The settings with which it starts."""
        self.number, self._holds = topology.update, dict(topology.updates)
        if not self._holds:
            return topology.config
        try:
            if topology.update != self._aside:
                return Config().merge(topology.config).updated(self._holds)
        except ConfigError as error:
            log.warning("%s starts without the settings that were changed: %s", self._name, error)
        self.number, self._holds = topology.update - 1, {}
        return topology.config

    def set_aside(self, error: Exception) -> bool:
        """It could not start, for this reason. Is it to be tried once more, without the updates?"""
        if not isinstance(error, ConfigError | TopologyError) or not self._holds:
            return False
        log.warning("%s starts without the settings that were changed: %s", self._name, error)
        self._aside = self.number
        return True

    async def follow(self, topology: TopologyRecord, running: RunningTopology) -> None:
        """Give a topology that runs the settings that are new. Raises what its `update` does, but ConfigError."""
        number, wanted = topology.update, dict(topology.updates)
        if number <= self.number:
            return
        new = {key: value for key, value in wanted.items() if key not in self._holds or self._holds[key] != value}
        try:
            await running.update(new)
        except ConfigError as error:
            log.error("%s: update %d is taken back: %s", self._name, number, error)
            try:
                why, at_s = str(error), self._clock.now()
                await refuse_update(self._coordination, self._name, number, self._holds, why, at_s)
            except OrderError as ended:  # it is being killed
                log.debug("%s: update %d: %s", self._name, number, ended)
        else:
            log.info("%s: update %d: %s", self._name, number, ", ".join(sorted(new)) or "nothing new")
            self._holds = wanted
        self.number = number
