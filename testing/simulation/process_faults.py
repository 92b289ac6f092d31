"""Process faults: faults of one process, and faults that last for a while; used by both operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .faults import Fault
    from .process import Process
    from .world import World


def draw_machine(process: Process, name: str = "machine") -> None:
    """Draw how fast this seed's processor is: the time of one callback."""
    chance = process.world.chance.stream(name)
    process.processor.handle_cost_s = 1e-6 * 100 ** chance.random()


def apply_fault(process: Process, fault: Fault, start: Callable[[], None]) -> bool:
    """Apply a fault to a process: crash (`start` is called later), pause, slow, clock. False: another kind."""
    world = process.world
    match fault.kind:
        case "crash":
            _crash(process, fault, start)
        case "pause":
            if process.alive:
                process.pause(fault.for_s)
        case "slow":
            trace_fault(process, f"is {fault.amount:.1f} times slower for {fault.for_s:.3f} s")
            process.processor.slowness = fault.amount
            world.call_at(world.now_s + fault.for_s, _fast, process)
        case "clock":
            _clock(process, fault)
        case _:
            return False
    return True


def heal(process: Process) -> None:
    """End all that `apply_fault` has done, except a death."""
    process.processor.heal()
    process.crash_at_effect = False
    process.clock.set_rate(1.0, process.world.now_s)


def trace_fault(process: Process, what: str) -> None:
    """Record a fault in the trace."""
    process.world.trace.add(process.world.now_s, "fault", process.name, what)


def _crash(process: Process, fault: Fault, start: Callable[[], None]) -> None:
    world = process.world
    if not process.alive:
        return
    if fault.amount:
        process.crash_at_effect = True
        world.call_at(world.now_s + 1.0, _crash_if_armed, process)  # if it had no effect outside until then
    else:
        process.crash()
    world.call_at(world.now_s + 1.0 * bool(fault.amount) + fault.for_s, start)


def _crash_if_armed(process: Process) -> None:
    if process.crash_at_effect:  # otherwise healed, or another incarnation
        process.crash()


def _clock(process: Process, fault: Fault) -> None:
    world = process.world
    if fault.for_s:
        trace_fault(process, f"its clock runs at {fault.amount:.4f} for {fault.for_s:.3f} s")
        process.clock.set_rate(fault.amount, world.now_s)
        world.call_at(world.now_s + fault.for_s, _right_clock, process)
    else:
        trace_fault(process, f"its wall clock jumps by {fault.amount:.3f} s")
        process.clock.wall_offset_s += fault.amount


def _fast(process: Process) -> None:
    process.processor.slowness = 1.0


def _right_clock(process: Process) -> None:
    process.clock.set_rate(1.0, process.world.now_s)


class LastingFaults:
    """Faults that last for a while: several may be active at once. `changed` is called when one begins or ends."""

    def __init__(self, world: World, changed: Callable[[], None]) -> None:
        self._world = world
        self._changed = changed
        self._open: list[Fault] = []

    def open(self, fault: Fault) -> None:
        """Begin now, and end when its time is over."""
        self._open.append(fault)
        self._changed()
        self._world.call_at(self._world.now_s + fault.for_s, self._close, fault)

    def clear(self) -> None:
        """End all."""
        self._open.clear()
        self._changed()

    def of(self, *kinds: str) -> list[Fault]:
        """The active faults of these kinds."""
        return [fault for fault in self._open if fault.kind in kinds]

    def worst(self, kind: str) -> float:
        """The largest amount of a kind; 0 if none is active."""
        return max((fault.amount for fault in self.of(kind)), default=0.0)

    def _close(self, fault: Fault) -> None:
        if any(fault is other for other in self._open):
            self._open = [other for other in self._open if other is not fault]
            self._changed()
