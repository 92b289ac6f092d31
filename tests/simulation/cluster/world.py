"""The workload of a cluster: everything that runs may die, freeze, or lose its store; a topology must go on.

    run(seed) ─► nimbus × 2 or 3, supervisor × 2 or 3 ─► a parent, workers ─► numbers are offered, and acked
                    ▲ faults for FAULTS_S; daemons are started again, as a service manager does

In half of the seeds each supervisor is a node of its own: its processes have addresses of their own, and workers are
notified where their parent is. There a node may be lost with all that runs on it, or be cut off from the others, with
the store or without. At the end one of them is lost for good: all goes on without it.

1. What is acked was executed. All that was offered is acked after the last fault.
2. Assignments are written by the leader of that moment only.
3. A process moves only when its supervisor has been silent for REASSIGN_S, or is named as one that does not stay alive
   there. In some worlds there is a third node, on which no worker stays alive: none is there at the end.
4. In every second world nimbus rebalances by itself when a node can take part: when all runs, and not too often.
5. A rebalance, and other code, run, or are taken back: what cannot run is never what is wanted at the end.
6. In every third world a component is pinned to a label that not all nodes have: none of its tasks runs elsewhere.
7. At the end every process of the topology runs once, where it is assigned. When it is killed, nothing of it is left.

    python -m tests.simulation.cluster --seeds 50 --fresh 150      what the gate runs
"""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from aiostorm.cluster.coordination import (
    CoordinationError,
    MemoryStore,
)
from aiostorm.cluster.coordination.polled import SESSION_S
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    NO_STORE,
    PARENT_PROCESS,
    PARENTS,
    TOPOLOGIES,
    AssignmentRecord,
    Nimbus,
    ParentRecord,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    path_of,
    rebalance,
    replace_code,
    submit,
    unpack,
    want,
)
from aiostorm.cluster.nimbus.joining import AUTO_KEY
from aiostorm.cluster.supervisor import Key, Supervisor, SupervisorSeams
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation import World, world_loop
from aiostorm.testing.simulation.process import Process

from . import topology
from .nodes import Nodes
from .processes import Machines, SimLaunching, SimNotes, SimProcesses
from .programs import Ways, run_parent, run_worker
from .watched import LOOK_S, NAME, QUIET_S, WatchedTree

FAULTS_S = 40.0
SETTLED_S = 120.0
ENDED_S = 60.0
LABEL = "disk"
RATE = 10
"""Numbers a second."""

OF_NODES = ("node", "node", "partition", "isolation")
ORDERS = ("deactivate", "rebalance", "tasks", "bad tasks", "replace", "bad code")
KINDS = ("nimbus", "supervisor", "parent", "worker", "worker", "pause", "away", "cut off", *ORDERS)


@dataclass(slots=True)
class ClusterResult:
    """One seed."""

    seed: int
    problems: list[str]
    faults: list[str] = field(default_factory=list)
    simulated_s: float = 0.0
    acked: int = 0
    twice: int = 0
    moves: int = 0
    joined: int = 0


class ClusterWorld:
    """One run."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.done = topology.begin()
        self.store = MemoryStore(LoopClock())
        self.tree = self.store.tree = WatchedTree(world)
        self.ways = Ways(self.store, at_once=self.chance.random() < 0.5)
        self.tree.silent_s = 0.0 if self.ways.at_once else SESSION_S
        self.machines = Machines(world, self._run_process, several=self.chance.random() < 0.5)
        self.nodes = Nodes(world, self.ways)
        self.result = ClusterResult(seed, world.problems)
        self.daemons: list[Process] = []
        self.supervisors = ""
        self.bad_node = self.chance.choice(("", "", "c"))
        self.over = False
        self.done.here = self._here
        self.labelled = ""  # the nodes to which a component is pinned; empty: none is

    # -- programs ------------------------------------------------------------------------------------------------------

    async def _run_process(self, process: Process, key: Key, supervisor: str) -> int:
        pid = next(pid for pid, found in self.machines.by_pid.items() if found == (process, process.incarnation))
        if self.machines.targets[pid][0] == topology.CRASHING_TARGET:
            return 1
        if key.process == PARENT_PROCESS:

            def left(code: int) -> None:
                self.machines.codes[pid] = code

            try:
                return await run_parent(process, self.ways, key.topology, supervisor, f"{process.name}:1", left)
            except* CoordinationError:  # as the command does
                left(NO_STORE)
            return NO_STORE
        if supervisor == self.bad_node:
            await asyncio.sleep(0.3)
            return 1
        parent: str | Callable[[], str] = f"{key.topology}:1"
        if self.machines.several:
            parent = partial(self.machines.addresses.get, (supervisor, key.topology), "")
        return await run_worker(process, key.process, parent, *self.machines.targets[pid], pid)

    def _nimbus(self, name: str) -> None:
        async def program(process: Process) -> None:
            while True:
                async with self.ways.client(process) as coordination:
                    try:
                        await Nimbus(coordination, LoopClock(), name.encode(), quiet_s=QUIET_S).run()
                    except CoordinationError:
                        continue

        self.daemons.append(self.world.process(name, self._restarted(program)))

    def _supervisor(self, name: str) -> None:
        async def program(process: Process) -> None:
            seams = SupervisorSeams(
                lambda: self.ways.client(process),
                SimProcesses(self.machines, name),
                SimNotes(self.machines, name),
                SimLaunching(self.machines, name),
            )
            address = f"at-{name}" if self.machines.several else ""
            labels = frozenset({LABEL} if name in self.labelled else ())
            record = SupervisorRecord("host", address, 4, process=str(process.incarnation), labels=labels)
            await Supervisor(name, record, seams, LoopClock()).run(asyncio.Event())

        self.daemons.append(self.world.process(f"supervisor@{name}", self._restarted(program)))

    def _restarted(
        self, program: Callable[[Process], Coroutine[Any, Any, None]]
    ) -> Callable[[Process], Coroutine[Any, Any, None]]:
        """A program that says what it fails of."""

        async def run(process: Process) -> None:
            try:
                await program(process)
            except* CoordinationError as group:
                self.world.trace.add(self.world.now_s, "daemon", process.name, f"ends: {group.exceptions[0]}")

        return run

    async def _keep_daemons(self) -> None:
        """A service manager."""
        while True:
            await asyncio.sleep(0.5)
            for daemon in self.daemons:
                if daemon.alive or self.nodes.is_lost(daemon):
                    continue
                if self.over or self.chance.random() < 0.3:
                    daemon.start()

    # -- the run -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with self.store.client(session_s=3600.0) as client, asyncio.TaskGroup() as group:
            await make_folders(client)
            for index in range(self.chance.choice((2, 2, 3))):
                self._nimbus(f"nimbus-{index + 1}")
            self.supervisors = "abc"[: 3 if self.bad_node else self.chance.choice((2, 2, 3))]
            if self.result.seed % 3 == 0:
                self.labelled = self.tree.labelled = "b" if self.supervisors == "ab" else "ab"
            for name in self.supervisors:
                self._supervisor(name)
            for daemon in self.daemons:
                daemon.start()
            tasks = [group.create_task(work) for work in (self._keep_daemons(), self._offer(), self._watch_store())]
            auto = {AUTO_KEY: self.result.seed % 2 == 0}
            pins = {"last": frozenset({LABEL})} if self.labelled else {}
            record = TopologyRecord(topology.TARGET, config=auto, workers=self.chance.choice((2, 3)), pins=pins)
            await submit(client, NAME, record)
            await self._until("the topology runs", self._runs, 120 if self.bad_node else 60)
            await self._faults(client)
            self.over = True
            self.nodes.restore()
            if self.machines.several:
                self._lose_for_good(self.chance.choice("a" if self.labelled == "b" else self.supervisors))
            self.store.away = False
            for way in self.ways.by_process.values():
                way.cut_off = False
            offered = self.done.offered
            await want(client, NAME, "ACTIVE")
            await self._until(
                "all is acked", lambda: self.done.acked >= set(range(offered)) and self._runs(), SETTLED_S
            )
            await self._until("every process runs once, where it is assigned", self._is_as_assigned, ENDED_S)
            await self._replace(client)
            await want(client, NAME, "KILLED")
            await self._until("all of it has ended", self._has_ended, ENDED_S)
            for task in tasks:
                task.cancel()
            for daemon in self.daemons:
                daemon.kill("the world ends")
        if lost := self.done.acked - self.done.executed.keys():
            self.world.problem(f"{len(lost)} numbers were acked, and never executed")
        elsewhere = {name for name in self.done.last_ran_in if self.labelled and name[-1] not in self.labelled}
        if elsewhere:
            self.world.problem(f"tasks of a pinned component ran in {', '.join(sorted(elsewhere))}")
        self.result.acked = len(self.done.acked)
        self.result.twice = sum(self.done.executed.values()) - len(self.done.executed)
        self.result.moves = self.tree.moves
        self.result.joined = self.tree.joined
        self.result.simulated_s = self.world.now_s

    async def _replace(self, client: Any) -> None:
        """In peace, other code runs."""
        target = self._other_target()
        await replace_code(client, NAME, lambda before: replace(before, target=target))
        await self._until("the other code runs", self._runs, ENDED_S)
        record: TopologyRecord = self._node(TOPOLOGIES, TopologyRecord)
        if record.refused is not None or record.target != target:
            self.world.problem(f"other code was taken back: {record.refused}")

    async def _offer(self) -> None:
        while not self.over:
            self.done.offered += 1
            await asyncio.sleep(1 / RATE)

    async def _watch_store(self) -> None:
        """Sessions end also while nothing is written; and a store that is away has no news of who is missing."""
        while True:
            self.store.expire()
            self.tree.look_at_supervisors()
            self.nodes.rewire()
            await asyncio.sleep(LOOK_S)

    async def _faults(self, client: Any) -> None:
        until_s = self.world.now_s + FAULTS_S
        while self.world.now_s < until_s:
            await asyncio.sleep(self.chance.uniform(0.2, 6.0))
            kind = self.chance.choice(KINDS + OF_NODES * self.machines.several)
            said = await self._fault(kind, client)
            if said:
                self.result.faults.append(f"{self.world.now_s:8.3f} {kind}: {said}")

    async def _fault(self, kind: str, client: Any) -> str:
        for_s = self.chance.choice((0.5, 3.0, 12.0, 25.0))
        victims = self._victims(kind)
        if kind == "away":
            self.store.away = True
            self.world.call_at(self.world.now_s + for_s, self._back)
            return f"{for_s:g} s"
        if kind in ORDERS:
            return await self._order(kind, client)
        if kind in OF_NODES:
            name = self.chance.choice(self.supervisors)
            self.nodes.fault(kind, name, for_s)
            return f"{name}, {for_s:g} s"
        if not victims:
            return ""
        victim = self.chance.choice(victims)
        if kind == "pause":
            victim.pause(for_s)
            return f"{victim.name}, {for_s:g} s"
        if kind == "cut off":
            way = self.ways.by_process.get(victim.name)
            if way is None:
                return ""
            way.cut_off = True
            self.world.call_at(self.world.now_s + for_s, self._reconnect, way)
            return f"{victim.name}, {for_s:g} s"
        victim.kill("is killed by the world")
        return victim.name

    async def _order(self, kind: str, client: Any) -> str:
        if self.store.away:
            return ""
        if kind == "rebalance":
            workers = self.chance.choice((1, 2, 3))
            await rebalance(client, NAME, workers)
            return f"{workers} workers"
        if kind in ("tasks", "bad tasks"):
            names = ("twice", "last") if kind == "tasks" else ("nothing",)
            tasks = {name: self.chance.choice((1, 2, 4)) for name in names}
            await rebalance(client, NAME, None, tasks)
            return str(tasks)
        if kind in ("replace", "bad code"):
            bad = self.chance.choice((topology.BROKEN_TARGET, topology.CRASHING_TARGET))
            target = bad if kind == "bad code" else self._other_target()
            await replace_code(client, NAME, lambda before: replace(before, target=target, parallelism={}))
            return target.rpartition(":")[2]
        await want(client, NAME, "INACTIVE")
        await asyncio.sleep(self.chance.uniform(0.5, 5.0))
        if not self.store.away:
            await want(client, NAME, "ACTIVE")
        return "and active again"

    def _other_target(self) -> str:
        record: TopologyRecord = self._node(TOPOLOGIES, TopologyRecord)
        return topology.TARGET if record.target == topology.OTHER_TARGET else topology.OTHER_TARGET

    def _victims(self, kind: str) -> list[Process]:
        alive = [process for process in self.world.processes.values() if process.alive]
        if kind in ("nimbus", "supervisor"):
            return [process for process in alive if process.name.startswith(kind)]
        if kind in ("parent", "worker"):
            own = [process for process in alive if process.name in self._processes()]
            return [process for process in own if (".worker-" in process.name) == (kind == "worker")]
        return [process for process in alive if process.name != "driver"]

    def _here(self) -> str:
        """The process whose event loop runs now."""
        loop = asyncio.get_running_loop()
        return next(each.name for each in self.world.processes.values() if each.incarnation and each.loop is loop)

    def _lose_for_good(self, node: str) -> None:
        """All goes on without this node."""
        self.result.faults.append(f"{self.world.now_s:8.3f} node: {node}, for good")
        self.nodes.fault("node", node, float("inf"))
        self.machines.notes.pop(node, None)  # its disk is lost, too

    def _back(self) -> None:
        self.store.away = False

    def _reconnect(self, way: Any) -> None:
        way.cut_off = False

    # -- what must be --------------------------------------------------------------------------------------------------

    def _node(self, folder: str, kind: Any) -> Any:
        node = self.tree.nodes.get(path_of(folder, NAME))
        return None if node is None else unpack(kind, folder, node.value)

    def _runs(self) -> bool:
        parent: ParentRecord | None = self._node(PARENTS, ParentRecord)
        assignment: AssignmentRecord | None = self._node(ASSIGNMENTS, AssignmentRecord)
        record: TopologyRecord | None = self._node(TOPOLOGIES, TopologyRecord)
        return (
            parent is not None
            and assignment is not None
            and record is not None
            and record.former is None
            and record.generation == assignment.generation
            and parent.state == "ACTIVE"
            and parent.generation == assignment.generation
            and not parent.degraded
        )

    def _processes(self) -> list[str]:
        names = [process.name for process in self.world.processes.values() if process.alive]
        return sorted(name for name in names if name == NAME or name.startswith(f"{NAME}."))

    def _is_as_assigned(self) -> bool:
        assignment: AssignmentRecord = self._node(ASSIGNMENTS, AssignmentRecord)
        parent = f"{NAME}.{PARENT_PROCESS}@{assignment.parent}" if self.machines.several else NAME
        wanted = [parent, *(f"{NAME}.worker-{i + 1}@{on}" for i, on in enumerate(assignment.workers))]
        return self._processes() == sorted(wanted) and self.bad_node not in assignment.workers

    def _has_ended(self) -> bool:
        left = [
            path for folder in (TOPOLOGIES, ASSIGNMENTS, PARENTS) if (path := path_of(folder, NAME)) in self.tree.nodes
        ]
        return not left and not self._processes() and not any(self.machines.notes.values())

    async def _until(self, what: str, condition: Callable[[], bool], within_s: float) -> None:
        until_s = self.world.now_s + within_s
        while not condition():
            if self.world.now_s >= until_s:
                raise AssertionError(f"not within {within_s:g} s: {what}; {self._state()}")
            await asyncio.sleep(0.1)

    def _state(self) -> str:
        left = set(range(self.done.offered)) - self.done.acked
        return (
            f"{len(left)} of {self.done.offered} not acked; parent {self._node(PARENTS, ParentRecord)}; "
            f"assignment {self._node(ASSIGNMENTS, AssignmentRecord)}; processes {self._processes()}; "
            f"notes {[*filter(None, self.machines.notes.values())]}"
        )


def run(seed: int, *, last: int = 0) -> ClusterResult:
    """One seed. `last`: print so many events of the trace."""
    loop = world_loop(seed, max_steps=20_000_000)
    world = loop.world
    runs: list[ClusterWorld] = []

    async def work() -> None:
        runs.append(ClusterWorld(world, seed))
        await runs[0].run()

    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(work())
            except Exception as error:  # whatever does not come is a finding
                world.problem("".join(traceback.format_exception(error)[-6:]))
            if last:
                print(world.trace.text(last))
    finally:
        logging.disable(disabled)
    return runs[0].result


__all__ = ["ClusterResult", "run"]
