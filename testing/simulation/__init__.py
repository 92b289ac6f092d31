"""The seeded world: topologies under faults, in virtual time, the same in every run of a seed.

A world (world.py), and its parts:

schedule.py  true time, and the events to come      process.py       a process, over all its incarnations
scheduler.py which process runs next                incarnation.py   one run of it
chance.py    randomness from one seed               loop.py          its event loop and its clock
trace.py     what has happened                      processor.py     how fast it is
problems.py  broken promises                        disk.py          what survives it
switch.py    the paths of the network               network.py       how it connects to others: connection.py, flight.py
                                                    spawner.py       how it starts others

What is run in a world, and the faults:

run.py       a topology in one process: phases      fleet.py             several processes: phases
topology_process.py  the process it runs in         fleet_operator.py    carries scripts out on them
operator.py  carries scripts out on it              process_faults.py    faults of one process, for both operators
endpoints.py its sources and sinks                  faults.py            scripts of faults
bolt_errors.py       bolts that raise               invariants.py        what an idle topology looks like
faulty_mailboxes.py  messages between its tasks

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
