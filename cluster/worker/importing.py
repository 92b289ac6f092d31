"""TopologyImporter: imports the one topology that a worker process runs, and checks that it is the parent's.

1. A topology is imported by its import string, once, and only one that the worker was started for: its command line
   says what it may import and where it looks for modules. A message contains data, never code. Later orders may change
   the parallelism of its components, nothing else.
2. Code that differs from the parent's (see fingerprint) is refused, unless the worker was started with permission for
   it. A topology with another shape is always refused: task ids would mean different things.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final

from ...topology import Topology, TopologyError
from ..fingerprint import code_of, fingerprint
from ..messages import CODE_DIFFERS, CommandFailed, ImportTopology
from ..targets import TargetError, import_topology, is_named

MAX_TEXT_CHARS: Final = 20_000
"""The longest text of an error."""

MAX_MODULES, MAX_NAME_CHARS = 2000, 200
"""How many modules are in a CommandFailed for different code, and how much of each name."""

Importer = Callable[[str, tuple[str, ...]], Topology]
"""(target, arguments) → topology. TargetError."""


def import_target(target: str, arguments: tuple[str, ...]) -> Topology:
    """Load a topology by its import string."""
    return import_topology(target, arguments, own=True)[1]


class TopologyImporter:
    """`targets`: what the worker may import; `any_code`: may its code differ from the parent's?"""

    def __init__(
        self, worker: str, targets: Sequence[str] = (), importer: Importer = import_target, *, any_code: bool = False
    ) -> None:
        self._worker = worker
        self._targets = targets
        self._import = importer
        self._any_code = any_code
        self._imported: tuple[tuple[str, tuple[str, ...], str], Topology] | None = None
        self.was_called = False
        """Was an import tried? There is no other one."""

    def import_topology(self, order: ImportTopology) -> Topology | CommandFailed:
        """Import the topology. This may take long and blocks the event loop."""
        origin = order.target, order.arguments, order.code
        if self._imported is not None and self._imported[0] == origin:
            return self._sized(order, self._imported[1])
        if self.was_called:
            text = f"worker {self._worker} has already imported a topology: a process imports one only"
            return CommandFailed("WorkerError", (text,))
        self.was_called = True
        if not is_named(order.target, self._targets):
            return CommandFailed("TargetError", (_not_named(order.target, self._worker, self._targets),))
        try:
            topology = self._import(order.target, order.arguments)
        except TargetError as error:
            return CommandFailed("TargetError", (str(error)[:MAX_TEXT_CHARS],))
        if order.code and not self._any_code:
            code = code_of(order.target)
            if fingerprint(code) != order.code:
                shown = [text[:MAX_NAME_CHARS] for pair in sorted(code.items()) for text in pair]
                return CommandFailed(CODE_DIFFERS, tuple(shown[: 2 * MAX_MODULES]))
        sized = self._sized(order, topology)
        if not isinstance(sized, CommandFailed):
            self._imported = origin, topology
        return sized

    def _sized(self, order: ImportTopology, topology: Topology) -> Topology | CommandFailed:
        """The topology with the parallelism of the order, if it is the parent's."""
        try:
            topology = topology.with_parallelism(order.parallelism)
        except TopologyError as error:
            return CommandFailed("TopologyError", tuple(error.problems))
        if (shape := shape_of(topology)) != order.shape:
            return CommandFailed("TopologyError", (_other_version(order.target, self._worker, shape, order.shape),))
        return topology


def shape_of(topology: Topology) -> str:
    """What must be equal in parent and workers, so that task ids mean the same."""
    return topology.describe()


def _not_named(target: str, worker: str, targets: Sequence[str]) -> str:
    return (
        f"worker {worker} was not started for {target:.500}, but for {', '.join(targets) or 'nothing'}: start it with "
        f"--target {shlex.quote(target)[:500]}"
    )


def _other_version(target: str, worker: str, found: str, expected: str) -> str:
    return (
        f"{target} is not the same topology in worker {worker} and in its parent; install the same version in both. "
        f"There:\n{found}\nHere:\n{expected}"
    )
