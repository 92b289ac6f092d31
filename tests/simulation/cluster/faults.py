"""The faults and the orders of the world of clusters: which, when, for how long, and of whom. The seed draws them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from aiostorm.cluster.coordination import HOLDER
from aiostorm.cluster.nimbus import rebalance, replace_code, want
from aiostorm.testing.simulation.process import Process

from . import topology
from .topology import TARGETS
from .ways import Way

if TYPE_CHECKING:
    from .world import ClusterWorld

FAULTS_S = 40.0

OF_NODES: Final = ("node", "partition", "isolation")
OF_NETWORK: Final = ("inward", "outward", "store cut", "unanswered")
ORDERS: Final = ("deactivate", "rebalance", "tasks", "bad tasks", "replace", "bad code")
OF_PROCESSES: Final = ("nimbus", "supervisor", "parent", "worker", "worker", "pause")
OF_WAYS: Final = ("cut off", "session", "hangs", "no answer")
OF_CLOCKS: Final = ("clock", "store clock")
KINDS: Final = (*OF_PROCESSES, *OF_WAYS, *OF_CLOCKS, "away", "full", *ORDERS)
FOR_S: Final = (0.5, 3.0, 12.0, 25.0)
JUMPS_S: Final = (2.0, 30.0, 600.0, 3600.0, 20_000.0)


@dataclass(slots=True)
class Faults:
    """Those of one world. `done`: what happened, for people."""

    run: ClusterWorld
    done: list[str] = field(default_factory=list)

    async def go_on(self, client: Any) -> None:
        """One after the other, for FAULTS_S."""
        world, chance = self.run.world, self.run.chance
        more = (*OF_NODES, *OF_NODES, *OF_NETWORK, "suspended")
        kinds = KINDS + more * self.run.machines.several
        until_s = world.now_s + FAULTS_S
        while world.now_s < until_s:
            await asyncio.sleep(chance.uniform(0.2, 6.0))
            kind = chance.choice(kinds)
            if said := await self._fault(kind, client):
                self.say(kind, said)

    def say(self, kind: str, what: str) -> None:
        """It has happened."""
        self.done.append(f"{self.run.world.now_s:8.3f} {kind}: {what}")

    async def _fault(self, kind: str, client: Any) -> str:
        for_s = self.run.chance.choice(FOR_S)
        if kind in ORDERS:
            return await self._order(kind, client)
        if kind in OF_PROCESSES:
            return self._of_process(kind, for_s)
        if kind in OF_WAYS:
            return self._of_way(kind, for_s)
        if kind in OF_CLOCKS:
            return self._clock(kind)
        if kind == "away":
            self._away(for_s)
            return f"{for_s:g} s"
        if kind == "full" and "exact" in self.run.names and self.run.chance.random() < 0.5:
            return self._no_snapshots(for_s)
        return self._of_node(kind, for_s)

    def _of_process(self, kind: str, for_s: float) -> str:
        victim = self._victim(kind)
        if victim is None:
            return ""
        if kind != "pause":
            victim.kill("is killed by the world")
            return victim.name
        victim.pause(for_s)
        return f"{victim.name}, {for_s:g} s"

    def _of_way(self, kind: str, for_s: float) -> str:
        run, now_s = self.run, self.run.world.now_s
        way = self._leader() if kind == "hangs" else self._way()
        if way is None:
            return ""
        if kind == "no answer":  # to the commit with which the next nimbus leads, or the next parent begins
            for each in () if run.ways.at_once else run.ways.by_process.values():
                each.loses_s = 1.0
            return "" if run.ways.at_once else "to all, at their next commit"
        if kind == "session":
            run.store.tree.end(way.backend.session)
            run.store.expire()
            return way.process.name
        if kind == "hangs":  # it is frozen when it is about to write
            way.hangs_s = for_s = run.chance.choice((1.0, 12.0, 25.0, 60.0))
        elif run.ways.at_once or run.chance.random() < 0.5:
            way.cut_until_s = now_s + for_s
        else:
            way.unanswered_until_s = now_s + for_s
            return f"{way.process.name} gets no answer for {for_s:g} s"
        return f"{way.process.name}, {for_s:g} s"

    def _of_node(self, kind: str, for_s: float) -> str:
        run = self.run
        names = [*run.supervisors, *(run.nimbuses if kind in (*OF_NETWORK, "suspended") else ())]
        name = run.chance.choice(names) if run.machines.several else ""
        if kind == "unanswered" and run.ways.at_once:  # a store on this machine always answers
            kind = "store cut"
        if kind == "suspended":
            for_s = run.chance.choice((1.0, 5.0, 12.0, 30.0, 60.0))
        run.nodes.fault(kind, name, for_s)
        return f"{name or 'all'}, {for_s:g} s"

    def _no_snapshots(self, for_s: float) -> str:
        """The disk with the snapshots is full."""
        world = self.run.world
        disk = world.disk(topology.PLACE)
        disk.full = True
        world.call_at(world.now_s + for_s, disk.heal)
        return f"snapshots, {for_s:g} s"

    def _clock(self, kind: str) -> str:
        run = self.run
        by_s = run.chance.choice(JUMPS_S) * run.chance.choice((-1, 1))
        if kind == "store clock":
            run.world.driver.clock.wall_offset_s += by_s
            return f"{by_s:g} s"
        names = [*run.supervisors, *run.nimbuses]
        name = run.chance.choice(names) if run.machines.several else ""
        run.nodes.jump(name, by_s)
        return f"{name or 'all'}, {by_s:g} s"

    async def _order(self, kind: str, client: Any) -> str:
        run, chance = self.run, self.run.chance
        if run.store.away:
            return ""
        name = chance.choice(run.names)
        targets = TARGETS[name]
        if kind == "rebalance":
            workers = chance.choice((1, 2, 3))
            await rebalance(client, name, workers)
            return f"{name}, {workers} workers"
        if kind in ("tasks", "bad tasks"):
            names = ("twice", targets.sink) if kind == "tasks" else ("nothing",)
            tasks = {each: chance.choice((1, 2, 4)) for each in names}
            await rebalance(client, name, None, tasks)
            return f"{name}, {tasks}"
        if kind in ("replace", "bad code"):
            bad = chance.choice((targets.broken, topology.CRASHING_TARGET))
            target = bad if kind == "bad code" else run.other_target(name)
            await replace_code(client, name, lambda before: replace(before, target=target, parallelism={}))
            return target.rpartition(":")[2]
        await want(client, name, "INACTIVE")
        await asyncio.sleep(chance.uniform(0.5, 5.0))
        if not run.store.away:
            await want(client, name, "ACTIVE")
        return f"{name}, and active again"

    # -- whom ----------------------------------------------------------------------------------------------------------

    def _victim(self, kind: str) -> Process | None:
        alive = [process for process in self.run.world.processes.values() if process.alive]
        if kind in ("nimbus", "supervisor"):
            found = [process for process in alive if process.name.startswith(kind)]
        elif kind in ("parent", "worker"):
            own = {name for topology_name in self.run.names for name in self.run.processes(topology_name)}
            found = [each for each in alive if each.name in own and (".worker-" in each.name) == (kind == "worker")]
        else:
            found = [process for process in alive if process.name != "driver"]
        return self.run.chance.choice(found) if found else None

    def _way(self) -> Way | None:
        found = [way for way in self.run.ways.by_process.values() if way.lives()]
        return self.run.chance.choice(found) if found else None

    def _leader(self) -> Way | None:
        holder = self.run.tree.nodes.get(HOLDER)
        session = 0 if holder is None else holder.session
        return next((way for way in self.run.ways.by_process.values() if way.backend.session == session), None)

    def _away(self, for_s: float) -> None:
        self.run.store.away = True
        self.run.world.call_at(self.run.world.now_s + for_s, self._back)

    def _back(self) -> None:
        self.run.store.away = False
