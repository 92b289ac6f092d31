"""The seeded world: topologies under faults, in virtual time, the same in every run of a seed.

world.py     processes, time, which runs next       faults.py    scripts of faults       run.py    phases, invariants
process.py   one simulated process                  operator.py  carries scripts out     trace.py  what happened
loop.py      its event loop and clock               faulty_mailboxes.py  loses and delays messages between tasks
chance.py    randomness from one seed               bolt_errors.py       bolts that raise
network.py   between processes                      switch.py    the paths of the network
disk.py      what survives a process                process_faults.py    faults of one process, for both operators
fleet.py     several processes: phases, invariants  fleet_operator.py    carries scripts out on them
spawner.py   processes that start others            endpoints.py         sources and sinks

In pytest, for tests marked `simulate` (see plugin.py of testing):

options.py   the arguments of the marker             session.py   a world per test and seed; the report of a failure
report.py    script, trace, commands                 rerun.py     the same seed with fewer faults: shrink.py decides
diagram.py   a trace as Mermaid; svg.py, as SVG      files.py     writes traces and diagrams
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
