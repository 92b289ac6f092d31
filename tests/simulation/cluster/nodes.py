"""Nodes of a simulated cluster: what happens to all processes on one: they are lost, frozen or cut off together.

A process is on node `a` if its name ends with `@a`; each nimbus has a node of its own. Without `several` there is one
node, whose name is empty: its processes reach each other and the store, but it has a clock and a disk.
"""

from __future__ import annotations

from collections.abc import Callable

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from .ways import Ways

NETWORK = ("partition", "isolation", "inward", "outward")


class Nodes:
    """What happens to whole nodes."""

    def __init__(self, world: World, ways: Ways, *, several: bool) -> None:
        self._world = world
        self._several = several
        self._until_s: dict[tuple[str, str], float] = {}  # (fault, node) → its end
        self._wall_s: dict[str, float] = {}
        self._right_s = world.driver.clock.wall_offset_s
        self._cut = False
        ways.cut = self._has("isolation", "store cut")
        ways.unanswered = self._has("unanswered")

    def fault(self, kind: str, node: str, for_s: float) -> None:
        """A fault begins.

        `node`: it is lost, with all its processes; `suspended`: none of them runs, and then they go on; `full`: its
        disk is full. `partition`: it does not reach the others, nor they it; `isolation`: nor the store; `inward`: what
        others send does not arrive; `outward`: what it sends does not; `store cut`: only the store is not reached;
        `unanswered`: the store is, but no answer comes.
        """
        self._until_s[kind, node] = self._world.now_s + for_s
        for process in self._on(node):
            if kind == "node":
                process.kill("its node is lost")
            elif kind == "suspended":
                process.pause(for_s)
        self.rewire()

    def jump(self, node: str, by_s: float) -> None:
        """The wall clock of this node jumps."""
        self._wall_s[node] = self._wall_s.get(node, 0.0) + by_s
        for process in self._world.processes.values():
            if self.node_of(process.name) == node:
                process.clock.wall_offset_s += by_s

    def set_clock(self, process: Process) -> None:
        """A process has been started: its wall clock is that of its node."""
        process.clock.wall_offset_s = self._right_s + self._wall_s.get(self.node_of(process.name), 0.0)

    def is_off(self, process: Process) -> bool:
        """Can no process be started on its node?"""
        return self._is("node", process.name) or self._is("suspended", process.name)

    def is_full(self, name: str) -> bool:
        """Is the disk of this process full?"""
        return self._is("full", name)

    def restore(self) -> None:
        """All nodes are there, and reach each other."""
        for (kind, node), until_s in self._until_s.items():
            if kind == "suspended" and until_s > self._world.now_s:
                for process in self._on(node):
                    process.processor.paused_until_s = self._world.now_s
        self._until_s.clear()
        self.rewire()

    def rewire(self) -> None:
        """Cut what is to be cut now: also of processes that have just been started."""
        now_s = self._world.now_s
        active = {fault for fault, until_s in self._until_s.items() if until_s > now_s and fault[0] in NETWORK}
        if not active and not self._cut:
            return
        self._cut = bool(active)
        off = {node for kind, node in active if kind in ("partition", "isolation")}
        no_source = off | {node for kind, node in active if kind == "outward"}
        no_target = off | {node for kind, node in active if kind == "inward"}
        on = {name: self.node_of(name) for name in self._world.processes if name != "driver"}
        for source, one in on.items():
            for target, other in on.items():
                if source != target:
                    cut = one != other and (one in no_source or other in no_target)
                    path = self._world.switch.path(source, target)
                    if path.cut != cut:
                        self._world.switch.set_cut(path, cut)

    def node_of(self, name: str) -> str:
        """The node of a process."""
        if not self._several:
            return ""
        return name.rpartition("@")[2] if "@" in name else name

    def _has(self, *kinds: str) -> Callable[[str], bool]:
        return lambda name: any(self._is(kind, name) for kind in kinds)

    def _is(self, kind: str, name: str) -> bool:
        return self._until_s.get((kind, self.node_of(name)), 0.0) > self._world.now_s

    def _on(self, node: str) -> list[Process]:
        return [each for each in self._world.processes.values() if each.alive and self.node_of(each.name) == node]
