"""What the worlds of several processes share: programs on the processes of a fleet, and whether they are at rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.fleet import Fleet
from aiostorm.testing.simulation.process import Main, Process


class FleetProgram(Protocol):
    """What a process runs, in all its incarnations. A process and its spare have programs of one name."""

    name: str
    process: Process

    @property
    def main(self) -> Main: ...


ProgramT = TypeVar("ProgramT", bound=FleetProgram)


class FleetWorkload(Generic[ProgramT]):
    """The programs of a fleet. `names`: of those that should run; until `load_until_s` they are given work."""

    fleet: Fleet
    load_until_s: float

    def __init__(self, world: World) -> None:
        self.world = world
        world.switch.describe = described
        self.names: list[str] = []
        self.programs: list[ProgramT] = []

    def add(self, program: ProgramT) -> None:
        """A program on a process of its name."""
        program.process = self.fleet.add(program.name, program.main)
        self.programs.append(program)

    def add_spare(self, spare: ProgramT) -> None:
        """A program that may take the place of the last one."""
        spare.process = self.fleet.add_spare(self.programs[-1].process, spare.main)
        self.programs.append(spare)

    @property
    def running(self) -> list[ProgramT]:
        return [program for program in self.programs if program.process.alive]

    def unsettled(self) -> Iterator[str]:
        """What keeps it from being at rest."""
        if self.world.now_s < self.load_until_s:
            yield "the load goes on"
        elif not self.is_complete():
            yield f"the processes that run are {', '.join(sorted(program.name for program in self.running))}"
        else:
            yield from self.unfinished()

    def is_complete(self) -> bool:
        """Does each name have one process?"""
        return sorted(program.name for program in self.running) == sorted(self.names)

    def unfinished(self) -> Iterator[str]:
        """What is still to be done, while all run."""
        raise NotImplementedError


def described(frame: bytes) -> str:
    """For the trace."""
    return f"{('?', 'HELLO', 'DATA', 'ACK', 'REFUSED', 'PULSE', 'PART')[frame[1] & 0x7F]} of {len(frame)} bytes"
