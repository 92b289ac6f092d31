"""The seeded world: topologies under faults, in virtual time, the same in every run of a seed.

world.py     processes, time, who runs next        faults.py    scripts of faults       run.py    phases, invariants
process.py   one simulated process                 operator.py  carries scripts out     trace.py  what happened
loop.py      its event loop and clock              wire.py      between tasks           outside.py sources and sinks
chance.py    randomness from one seed              injury.py    bolts that raise
network.py   between processes                     switch.py    what they are plugged into
disk.py      what survives a process
"""

from .errors import InvariantError, SimulatedError
from .faults import KINDS, Fault
from .outside import Sink, Source
from .run import Outcome, Simulation
from .trace import Event, Trace
from .world import World, world_loop

__all__ = [
    "KINDS",
    "Event",
    "Fault",
    "InvariantError",
    "Outcome",
    "SimulatedError",
    "Simulation",
    "Sink",
    "Source",
    "Trace",
    "World",
    "world_loop",
]
