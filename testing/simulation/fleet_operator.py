"""The operator of a fleet: carries a fault script out on processes, paths and disks, and heals what is not over.

A fault's `choice` says where: which process; which two; which group is cut off from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .process_faults import LastingFaults, apply_fault, heal, trace_fault

if TYPE_CHECKING:
    from .faults import Fault
    from .process import Process
    from .world import World


class FleetOperator:
    """Carries a script out on a fleet."""

    def __init__(self, world: World, processes: Sequence[Process], more: Mapping[str, Callable[[Fault], None]]) -> None:
        self.faulty = False
        self._more = more
        self.over = False
        self.children: set[str] = set()
        self.spare_of: dict[Process, Process] = {}
        """A process → its spare, and back. One of the two should run."""
        self._world = world
        self._processes = processes
        self._lasting = LastingFaults(world, self._rewire)
        self._chance = world.chance.stream("fleet operator")

    def schedule(self, script: Sequence[Fault]) -> None:
        """Schedule each fault at its time."""
        self.faulty = True
        for fault in script:
            self._world.call_at(fault.at_s, self._begin, fault)

    def heal(self) -> None:
        """End all faults, and start no more. (Connections that are half open stay so.)"""
        self.faulty = False
        self._lasting.clear()
        self._world.trace.add(self._world.now_s, "fault", "world", "is healed")
        for process in self._processes:
            heal(process)
            self._world.disk(process.name).heal()
            self.start(process)

    def start(self, process: Process) -> None:
        """Start a process, unless it runs, or its spare does."""
        spare = self.spare_of.get(process)
        if spare is None or not spare.alive:
            self.start_beside(process)

    def start_beside(self, process: Process) -> None:
        """Start a process, even if its spare runs."""
        if not process.alive and not self.over and process.name not in self.children:
            process.start()

    def _begin(self, fault: Fault) -> None:
        if not self.faulty:
            return
        process = self._processes[fault.choice % len(self._processes)]
        if apply_fault(process, fault, partial(self._restart, process)):
            return
        if fault.kind in self._more:
            self._more[fault.kind](fault)
            return
        if fault.kind == "replace":
            spared = [*self.spare_of]
            if spared:
                self.start_beside(spared[fault.choice % len(spared)])
            return
        if fault.kind == "sync":
            trace_fault(process, "will see its next sync fail")
            self._world.disk(process.name).failing_syncs += 1
        elif fault.kind == "half":
            one, other = self._two(fault)
            trace_fault(one, f"has its connections to {other.name} cut on one side")
            self._world.switch.halve_between(one.name, other.name)
        elif fault.kind == "silence":
            one, other = self._two(fault)
            trace_fault(one, f"falls silent on its connections to {other.name}")
            self._world.switch.silence_between(one.name, other.name)
        else:
            self._trace_lasting(fault, process)
            self._lasting.open(fault)
            if fault.kind == "flap":
                self._flap(fault)

    def _restart(self, process: Process) -> None:
        """After a crash: while there are faults, the spare may have taken over or not."""
        if self.faulty:
            self.start_beside(process)
        else:
            self.start(process)

    def _flap(self, fault: Fault) -> None:
        if fault in self._lasting.of("flap"):
            one, other = self._two(fault)
            self._world.switch.break_between(one.name, other.name)
            self._world.call_at(self._world.now_s + fault.amount * self._chance.uniform(0.5, 1.5), self._flap, fault)

    def _rewire(self) -> None:
        """Set paths and disks to the faults that are active now."""
        world, lasting, processes = self._world, self._lasting, self._processes
        for source in processes:
            for target in processes:
                if source is not target:
                    path = world.switch.path(source.name, target.name)
                    before = path.bandwidth
                    here = [fault for fault in lasting.of(*_PATHS) if self._is_on(fault, source, target)]
                    for kind, (attribute, worst) in _PATHS.items():
                        amounts = [fault.amount or 1.0 for fault in here if fault.kind == kind]
                        setattr(path, attribute, worst(amounts, default=0.0))
                    if before and not before >= path.bandwidth > 0:
                        path.widen()
                    cut = any(self._cuts(fault, source, target) for fault in lasting.of("partition"))
                    world.switch.set_cut(path, cut)
        for i, process in enumerate(processes):
            disk = world.disk(process.name)
            mine = [fault for fault in lasting.of("full", "disk") if fault.choice % len(processes) == i]
            disk.full = any(fault.kind == "full" for fault in mine)
            disk.slowness = max((fault.amount for fault in mine if fault.kind == "disk"), default=1.0)

    # -- where -------------------------------------------------------------------------------------------------------

    def _two(self, fault: Fault) -> tuple[Process, Process]:
        processes = self._processes
        i, j = divmod(fault.choice // 3 % (len(processes) * (len(processes) - 1)), len(processes) - 1)
        return processes[i], processes[j + (j >= i)]

    def _is_on(self, fault: Fault, source: Process, target: Process) -> bool:
        """A third of these faults are everywhere, the others on one path."""
        return fault.choice % 3 == 0 or self._two(fault) == (source, target)

    def _cuts(self, fault: Fault, source: Process, target: Process) -> bool:
        group = fault.choice % (2 ** len(self._processes) - 2) + 1  # neither none nor all
        is_in = [bool(group >> self._processes.index(process) & 1) for process in (source, target)]
        return is_in == [True, False] if fault.amount else is_in[0] != is_in[1]

    def _trace_lasting(self, fault: Fault, process: Process) -> None:
        lasts = f" for {fault.for_s:.3f} s"
        if fault.kind in ("full", "disk"):
            trace_fault(
                process,
                ("has a full disk" if fault.kind == "full" else f"has a disk {fault.amount:.0f} x slower") + lasts,
            )
            return
        cut = [f"{a.name}>{b.name}" for a in self._processes for b in self._processes if self._cuts(fault, a, b)]
        one, other = self._two(fault)
        where = "everywhere" if fault.choice % 3 == 0 and fault.kind != "flap" else f"{one.name}>{other.name}"
        text = f"partition {' '.join(cut)}" if fault.kind == "partition" else f"{fault.kind} {fault.amount:.3f} {where}"
        self._world.trace.add(self._world.now_s, "fault", "network", text + lasts)


_PATHS: dict[str, tuple[str, Callable[..., float]]] = {
    "sever": ("breaks", max),
    "refuse": ("refuses", max),
    "lag": ("lag_s", max),
    "narrow": ("narrowed_bytes_s", min),
}
"""Kind of a fault → the attribute of the path, and which of several amounts is the worst."""
