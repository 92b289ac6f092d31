"""Nodes of a simulated cluster: processes on one are lost together, or cut off together from those of the others."""

from __future__ import annotations

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from .programs import Ways


class Nodes:
    """What happens to whole nodes. A process is on node `a` if its name ends with `@a`."""

    def __init__(self, world: World, ways: Ways) -> None:
        self._world = world
        self._ways = ways
        self._until_s: dict[tuple[str, str], float] = {}  # (fault, node) → its end
        self._cut_off: set[str] = set()  # processes that do not reach the store because of their node

    def fault(self, kind: str, node: str, for_s: float) -> None:
        """`node`: it is lost, with all its processes; `partition`: it does not reach the others; `isolation`: and not
        the store."""
        self._until_s[kind, node] = self._world.now_s + for_s
        if kind == "node":
            for process in self._on(node):
                process.kill("its node is lost")
        self.rewire()

    def is_lost(self, process: Process) -> bool:
        """Is its node off?"""
        return ("node", _node(process.name)) in self._active()

    def restore(self) -> None:
        """All nodes are there, and reach each other."""
        self._until_s.clear()
        self.rewire()

    def rewire(self) -> None:
        """Cut what is to be cut now: also of processes that have just been started."""
        active = self._active()
        off = {node for kind, node in active if kind in ("partition", "isolation")}
        isolated = {node for kind, node in active if kind == "isolation"}
        names = [name for name in self._world.processes if name != "driver"]
        for source in names:
            for target in names:
                if source != target:
                    one, other = _node(source), _node(target)
                    cut = one != other and not off.isdisjoint((one, other))
                    path = self._world.switch.path(source, target)
                    if path.cut != cut:
                        self._world.switch.set_cut(path, cut)
        for name, way in self._ways.by_process.items():
            if _node(name) in isolated:
                way.cut_off = True
                self._cut_off.add(name)
            elif name in self._cut_off:
                way.cut_off = False
                self._cut_off.discard(name)

    def _active(self) -> set[tuple[str, str]]:
        self._until_s = {fault: until_s for fault, until_s in self._until_s.items() if until_s > self._world.now_s}
        return set(self._until_s)

    def _on(self, node: str) -> list[Process]:
        return [each for each in self._world.processes.values() if each.alive and _node(each.name) == node]


def _node(name: str) -> str:
    return name.rpartition("@")[2] if "@" in name else ""
