"""Building: puts the parts of exactly once together, for one topology."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...state import open_store
from ...state.sinks import Commits
from ...topology import Component, make_plan
from ..local_runtime import LocalRuntime
from .agent import Agent
from .exactly_once import ExactlyOnceRuntime, MakeRebuildable
from .manager import SnapshotManager
from .place import Beginning, SnapshotPlace, state_place
from .rebuilt_local import RebuiltLocalRuntime
from .restoring import Components

if TYPE_CHECKING:
    from ...actors import ActorSystem
    from ...runtime import Store
    from ...tasks import MailboxWrapper
    from ...topology import Config, Topology
    from ..runtimes import OnTaskGaveUp
    from .messages import SnapshotReport, SnapshotSetup
    from .runtime import Rebuildable


def exactly_once_runtime(
    system: ActorSystem,
    name: str,
    topology: Topology,
    config: Config,
    gave_up: OnTaskGaveUp,
    make: Callable[[SnapshotPlace], MakeRebuildable],
    beginning: Beginning,
    open_place: Callable[[str], Store] | None = None,
) -> ExactlyOnceRuntime:
    """The runtime of a topology with exactly once; nothing is opened yet. `make`: of what runs its tasks."""
    plan = make_plan(topology, config)
    incarnation = int.from_bytes(system.rng.token_bytes(6), "big")
    where = state_place(config.state_dir, name)
    place = SnapshotPlace(where, name, incarnation, config, open_place or open_store)
    manager = SnapshotManager(system, name, config, Components(topology, plan), place, gave_up)
    return ExactlyOnceRuntime(plan, manager, make(place), beginning, _sinks(topology))


def _sinks(topology: Topology) -> list[str]:
    """The components that commit with snapshots."""
    made = {
        spec.id: spec.template if isinstance(spec.template, Component) else spec.create()
        for spec in topology.components.values()
    }
    return [name for name, component in made.items() if isinstance(component, Commits)]


def rebuilt_local(
    system: ActorSystem, name: str, topology: Topology, config: Config, mailbox_wrapper: MailboxWrapper
) -> Callable[[SnapshotPlace], MakeRebuildable]:
    """Runs the tasks in this process."""

    def for_place(place: SnapshotPlace) -> MakeRebuildable:
        def make_agent(setup: SnapshotSetup, send: Callable[[SnapshotReport], None]) -> Agent:
            return Agent(setup, place.store, system, send, strict=config.testing_always_try_serialize)

        def make_runtime(agent: Agent, gave_up: OnTaskGaveUp) -> LocalRuntime:
            return LocalRuntime(
                system, name, topology, config, gave_up=gave_up, mailbox_wrapper=mailbox_wrapper, snapshots=agent
            )

        def make(setup: SnapshotSetup, manager: SnapshotManager) -> Rebuildable:
            return RebuiltLocalRuntime(make_runtime, make_agent, setup, manager.on_report, manager.on_gave_up)

        return make

    return for_place
