"""Assignment: a topology that is to run on workers. Deployment: the same with its plan and placement decided."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Self

from ...topology import UPDATABLE, Config, Plan, Topology, make_plan
from ..fingerprint import code_of, fingerprint
from ..messages import PLAN_AFTER, ImportTopology, Standing, without_plan
from ..scheduler import place, tasks_on_driver
from ..worker.importing import shape_of
from .worker_lifecycle import LifecycleTimings

if TYPE_CHECKING:
    from ...topology import Setting
    from .worker_registry import WorkerRegistry


@dataclass(frozen=True, slots=True)
class Assignment:
    """A topology for workers: its target, and how many local and remote workers it gets.

    `parallelism`: component → tasks, where its code says otherwise. `pinned`: component → the workers that alone may
    run its tasks.
    """

    target: str
    arguments: tuple[str, ...] = ()
    workers: int = 1
    remote_workers: int = 0
    parallelism: Mapping[str, int] = field(default_factory=dict)
    pinned: Mapping[str, Collection[str]] = field(default_factory=dict)
    timings: LifecycleTimings = field(default_factory=LifecycleTimings)


@dataclass(slots=True)
class Deployment:
    """A topology placed on workers. `placement`: task → worker; `code`: the topology's modules (see fingerprint).

    `config` changes when settings are updated: a worker that starts later has them from its start.
    """

    name: str
    topology: Topology
    config: Config
    assignment: Assignment
    plan: Plan
    workers: tuple[str, ...]
    placement: dict[int, str]
    code: dict[str, str]

    @classmethod
    def make(
        cls, registry: WorkerRegistry, name: str, topology: Topology, config: Config, assignment: Assignment
    ) -> Self:
        """Allocate the workers and place the tasks. ValueError if there are too few remote workers."""
        plan = make_plan(topology, config)
        on_driver = bool(tasks_on_driver(topology, plan))
        infos = registry.allocate(assignment.workers, assignment.remote_workers, on_driver=on_driver)
        placement = place(topology, plan, infos, pinned=assignment.pinned)
        workers = tuple(info.name for info in infos)
        return cls(name, topology, config, assignment, plan, workers, placement, code_of(assignment.target))

    def tasks_of(self, worker: str) -> tuple[int, ...]:
        """The tasks of a worker."""
        return tuple(task for task, placed_on in self.placement.items() if placed_on == worker)

    def standing(self) -> Standing:
        """That of a process whose tasks have ended, and which stays for another topology of the same code."""
        return Standing(0, without_plan(self.import_command().digest), has_tasks=True)

    def import_command(self) -> ImportTopology:
        """The command to import the topology, with the settings of now."""
        command = ImportTopology(
            name=self.name,
            target=self.assignment.target,
            arguments=self.assignment.arguments,
            config=settings_of(self.config),
            placement=dict(self.placement),
            shape=shape_of(self.topology),
            code=fingerprint(self.code),
            parallelism=dict(self.assignment.parallelism),
        )
        return replace(command, digest=f"{origin_of(command)}{PLAN_AFTER}{digest_of(command)}")


def origin_of(command: ImportTopology) -> str:
    """The digest of all that a process imports once: it goes on only under a parent for which this is equal."""
    parts = (command.name, command.target, command.arguments, command.code)
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def digest_of(command: ImportTopology) -> str:
    """The digest of all that must be equal in a worker that goes on with its tasks under another parent.

    Settings that can be changed while a topology runs do not count: such a worker is sent the new ones.
    """
    fixed = {key: value for key, value in command.config.items() if key not in UPDATABLE}
    parts = (command.name, command.target, command.arguments, fixed, command.placement, command.shape, command.code)
    return hashlib.sha256(repr(_ordered(parts)).encode("utf-8", "surrogatepass")).hexdigest()


def _ordered(value: object) -> object:
    """The value with its mappings sorted: equal ones have the same repr in every process."""
    if isinstance(value, Mapping):
        return sorted(((repr(key), _ordered(each)) for key, each in value.items()), key=itemgetter(0))
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_ordered(each) for each in value]
    return value


def settings_of(config: Config) -> dict[str, Setting]:
    """The settings of a configuration, to be sent to workers."""
    return {**{key: getattr(config, key) for key in config.model_fields_set}, **config.user}
