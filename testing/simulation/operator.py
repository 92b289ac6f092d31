"""The operator: carries a fault script out, and heals what is not over by itself.

Of several active faults of a kind (see process_faults.py) the worst counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...cluster import RunningTopology, TopologyFailedError, TopologyKilledError
from ...topology import ACKER_COMPONENT
from .process_faults import LastingFaults, apply_fault, heal, trace_fault

if TYPE_CHECKING:
    from .bolt_errors import BoltErrors
    from .faults import Fault
    from .topology_process import TopologyProcess


class Operator:
    """Carries a script out in the world."""

    def __init__(self, host: TopologyProcess, bolt_errors: BoltErrors) -> None:
        self._host = host
        self._process = host.process
        self._world = host.world
        self._bolt_errors = bolt_errors
        self._lasting = LastingFaults(self._world, self.rewire)
        self.faulty = False

    def schedule(self, script: Sequence[Fault]) -> None:
        """Schedule each fault at its time."""
        self.faulty = True
        for fault in script:
            self._world.call_at(fault.at_s, self._begin, fault)

    def heal(self) -> None:
        """End all faults, and start no more."""
        self.faulty = False
        self._lasting.clear()
        self._bolt_errors.heal()
        heal(self._process)
        self._world.trace.add(self._world.now_s, "fault", "world", "is healed")
        self.start()

    def start(self) -> None:
        """Start the process, unless it is alive."""
        if not self._process.alive and not self._host.stopped:
            self._process.start()

    def rewire(self) -> None:
        """Set the rates of the mailboxes to the faults that are active now. (A new incarnation has new mailboxes.)"""
        mailboxes = self._host.mailboxes
        if mailboxes is None:
            return
        lasting = self._lasting
        mailboxes.segment_loss = mailboxes.loss = lasting.worst("loss")
        mailboxes.repeat = lasting.worst("repeat")
        mailboxes.late_s = lasting.worst("late")
        mailboxes.late = 0.3 if mailboxes.late_s else 0.0

    # -- each kind ---------------------------------------------------------------------------------------------------

    def _begin(self, fault: Fault) -> None:
        if not self.faulty:
            return
        if apply_fault(self._process, fault, self.start):
            return
        if fault.kind == "error":
            bolts = [spec.id for spec in self._host.topology.components.values() if spec.kind == "bolt"]
            if bolts:
                self._trace(f"{self._bolt_errors.arm(bolts, int(fault.amount))} raises at its next tuple")
        elif fault.kind in ("loss", "repeat", "late"):
            self._trace(f"{fault.kind} {fault.amount:.3f} for {fault.for_s:.3f} s")
            self._lasting.open(fault)
        elif fault.kind == "acker":
            self._fail_acker(int(fault.amount))
        elif fault.kind == "steer":
            self._deactivate(fault.for_s)

    def _fail_acker(self, choice: int) -> None:
        running = self._host.is_up()
        if running is None:
            return
        ackers = running.plan.tasks_of.get(ACKER_COMPONENT, ())
        if ackers and running.state == "ACTIVE":
            task_id = ackers[choice % len(ackers)]
            self._trace(f"acker {task_id} gets a message that it does not understand")
            self._in_loop(lambda: running._task_set.tasks.mailboxes[task_id].post(_UnknownMessage()))

    def _deactivate(self, for_s: float) -> None:
        running = self._host.is_up()
        if running is not None:
            self._trace(f"is deactivated for {for_s:.3f} s")
            self._process.spawn(_rest(running, for_s), "operator", background=True)

    def _in_loop(self, work: Callable[[], None]) -> None:
        self._process.loop.call_soon(work)

    def _trace(self, what: str) -> None:
        trace_fault(self._process, what)


async def _rest(running: RunningTopology, for_s: float) -> None:
    with contextlib.suppress(TopologyFailedError, TopologyKilledError):  # the topology ended meanwhile
        await running.deactivate()
        await asyncio.sleep(for_s)
        await running.activate()


class _UnknownMessage:
    """A message that an acker does not know."""

    def __repr__(self) -> str:
        return "a message that no acker understands (simulated)"
