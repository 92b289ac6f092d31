"""The operator: carries a fault script out, and heals what is not over by itself.

Rates on wires are windows: several may be open at once, and the worst holds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...cluster import RunningTopology, TopologyFailedError, TopologyKilledError
from ...topology import ACKER_COMPONENT
from .faults import Fault
from .injury import Injuries
from .process import Process

if TYPE_CHECKING:
    from .run import Simulation


class Operator:
    """Does to the world what a script says."""

    def __init__(self, simulation: Simulation, injuries: Injuries) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._injuries = injuries
        self._windows: list[Fault] = []
        self.faulty = False

    def draw_machine(self, process: Process) -> None:
        """How fast this seed's processor is: what one callback takes."""
        chance = self._world.chance.stream("machine")
        process.handle_cost_s = 1e-6 * 100 ** chance.random()

    def schedule(self, script: Sequence[Fault]) -> None:
        """From now on, each at its time."""
        self.faulty = True
        for fault in script:
            self._world.call_at(fault.at_s, self._begin, fault)

    def heal(self) -> None:
        """Nothing is broken any more, and nothing breaks."""
        self.faulty = False
        self._windows.clear()
        self._injuries.heal()
        self.rewire()
        process = self._process
        process.slowness, process.paused_until_s = 1.0, 0.0
        process.crash_at_effect = False
        process.clock.set_rate(1.0, self._world.now_s)
        self._world.trace.add(self._world.now_s, "fault", "world", "is healed")
        self.start()

    def start(self) -> None:
        """Start the process, unless it is alive."""
        if not self._process.alive and not self._simulation.over:
            self._process.start()

    def rewire(self) -> None:
        """Set the rates of the wires to what is open now. (A new life has new wires.)"""
        wires = self._simulation.wires
        if wires is None:
            return
        losses = [window.amount for window in self._windows if window.kind == "loss"]
        late = [window for window in self._windows if window.kind == "late"]
        wires.segment_loss = wires.loss = max(losses, default=0.0)
        wires.repeat = max((window.amount for window in self._windows if window.kind == "repeat"), default=0.0)
        wires.late = 0.3 if late else 0.0
        wires.late_s = max((window.amount for window in late), default=0.0)

    @property
    def _process(self) -> Process:
        process = self._simulation.process
        assert process is not None
        return process

    # -- each kind ---------------------------------------------------------------------------------------------------

    def _begin(self, fault: Fault) -> None:
        if not self.faulty:
            return
        process, world = self._process, self._world
        if fault.kind == "crash":
            self._crash(fault)
        elif fault.kind == "pause" and process.alive:
            process.pause(fault.for_s)
        elif fault.kind == "slow":
            self._say(f"is {fault.amount:.1f} times slower for {fault.for_s:.3f} s")
            process.slowness = fault.amount
            world.call_at(world.now_s + fault.for_s, self._fast)
        elif fault.kind == "clock":
            self._clock(fault)
        elif fault.kind == "error":
            bolts = [spec.id for spec in self._simulation.topology.components.values() if spec.kind == "bolt"]
            if bolts:
                self._say(f"{self._injuries.arm(bolts, int(fault.amount))} raises at its next tuple")
        elif fault.kind in ("loss", "repeat", "late"):
            self._say(f"{fault.kind} {fault.amount:.3f} for {fault.for_s:.3f} s")
            self._windows.append(fault)
            self.rewire()
            world.call_at(world.now_s + fault.for_s, self._close, fault)
        elif fault.kind == "acker":
            self._fail_acker(int(fault.amount))
        elif fault.kind == "steer":
            self._deactivate(fault.for_s)

    def _crash(self, fault: Fault) -> None:
        process, world = self._process, self._world
        if not process.alive:
            return
        if fault.amount:
            process.crash_at_effect = True
            world.call_at(world.now_s + 1.0, process.crash)  # if nothing was seen of it until then
        else:
            process.crash()
        world.call_at(world.now_s + 1.0 * bool(fault.amount) + fault.for_s, self.start)

    def _clock(self, fault: Fault) -> None:
        process, world = self._process, self._world
        if fault.for_s:
            self._say(f"its clock runs at {fault.amount:.4f} for {fault.for_s:.3f} s")
            process.clock.set_rate(fault.amount, world.now_s)
            world.call_at(world.now_s + fault.for_s, self._right_clock)
        else:
            self._say(f"its wall clock jumps by {fault.amount:.3f} s")
            process.clock.wall_offset_s += fault.amount

    def _fail_acker(self, choice: int) -> None:
        running = self._simulation.is_up()
        if running is None:
            return
        ackers = running.plan.tasks_of.get(ACKER_COMPONENT, ())
        if ackers and running.state == "ACTIVE":
            task_id = ackers[choice % len(ackers)]
            self._say(f"acker {task_id} gets a message that it does not understand")
            self._in_loop(lambda: running._crew.mailboxes[task_id].post(_Nonsense()))

    def _deactivate(self, for_s: float) -> None:
        running = self._simulation.is_up()
        if running is not None:
            self._say(f"is deactivated for {for_s:.3f} s")
            self._process.outside(_rest(running, for_s), "operator")

    def _in_loop(self, work: Callable[[], None]) -> None:
        self._process.loop.call_soon(work)

    def _fast(self) -> None:
        self._process.slowness = 1.0

    def _right_clock(self) -> None:
        self._process.clock.set_rate(1.0, self._world.now_s)

    def _close(self, window: Fault) -> None:
        if window in self._windows:
            self._windows.remove(window)
            self.rewire()

    def _say(self, what: str) -> None:
        self._world.trace.add(self._world.now_s, "fault", self._process.name, what)


async def _rest(running: RunningTopology, for_s: float) -> None:
    with contextlib.suppress(TopologyFailedError, TopologyKilledError):  # it ended meanwhile
        await running.deactivate()
        await asyncio.sleep(for_s)
        await running.activate()


class _Nonsense:
    """No message that an acker knows."""
