"""The seeded world: topologies under faults, in virtual time, the same in every run of a seed.

world.py     processes, time, who runs next        faults.py    scripts of faults       run.py    phases, invariants
process.py   one simulated process                 operator.py  carries scripts out     trace.py  what happened
loop.py      its event loop and clock              wire.py      between tasks           outside.py sources and sinks
chance.py    randomness from one seed              injury.py    bolts that raise
network.py   between processes                     switch.py    what they are plugged into
disk.py      what survives a process               harm.py      what operators have in common
fleet.py     several processes: phases, invariants fleet_operator.py  carries scripts out on them
spawner.py   processes that start others

In pytest, for tests marked `simulate` (see plugin.py of the room around this one):

asked.py     what a marker asks for                session.py   a world per test and seed; what a failure says
report.py    script, trace, commands               rerun.py     the same seed with fewer faults: shrink.py decides
diagram.py   a trace as Mermaid; svg.py, as SVG    files.py     traces and diagrams that were asked for
"""

from .diagram import sequence_diagram
from .endpoints import Sink, Source
from .errors import InvariantError, SimulatedError
from .faults import KINDS, Fault
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
    "sequence_diagram",
    "world_loop",
]
