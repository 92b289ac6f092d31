"""The workload of a cluster: everything that runs may die, freeze, or lose its store; topologies must go on.

    run(seed) ─► nimbuses, supervisors ─► parents, workers ─► numbers are offered, and acked or committed
                    ▲ faults for FAULTS_S (faults.py); daemons are started again, as a service manager does

A small world has 2 or 3 nimbuses, 2 or 3 supervisors and one topology; every eighth is large: 3, 4 and two.

In half of the seeds each supervisor is a node of its own: its processes have addresses of their own, and workers are
notified where their parent is. There a node may be lost with all that runs on it, be suspended, or be cut off from the
others, the store, or both, in one direction or both. At the end one of them is lost for good: all goes on without it.

1. What is acked was executed. All that was offered is acked after the last fault. What is exactly
   once is committed once.
2. Assignments are written by the leader of that moment only.
3. A process moves only when its supervisor has been silent for REASSIGN_S, or is named as one that does not stay alive
   there. In some worlds there is a node on which no worker stays alive: none is there at the end.
4. In every second world nimbus rebalances by itself when a node can take part: when all runs, and not too often.
5. A rebalance, and other code, run, or are taken back: what cannot run is never what is wanted at the end.
6. In every third world a component is pinned to a label that not all nodes have: none of its tasks runs elsewhere.
7. At the end every process of a topology runs once, where it is assigned. When it is killed, nothing of it is left.
8. A session ends only if its process could not renew it, whatever the wall clocks show.
9. No process is started that no slot file names; no daemon ends because of a full disk.
10. Settings that are changed while it runs hold at the end, and in the processes of other code, too.

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

from aiostorm import RunningTopology
from aiostorm.cluster.coordination import CoordinationError, MemoryStore, UnavailableError
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
    replace_code,
    submit,
    unpack,
    update,
    want,
)
from aiostorm.cluster.nimbus.joining import AUTO_KEY
from aiostorm.cluster.supervisor import Key, Supervisor, SupervisorSeams
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation import World, world_loop
from aiostorm.testing.simulation.process import Process

from . import topology
from .faults import Faults
from .nodes import Nodes
from .processes import Machines, SimLaunching, SimNotes, SimProcesses
from .programs import run_parent, run_worker
from .topology import TARGETS
from .watched import LOOK_S, QUIET_S, ROUND_S, WatchedTree
from .ways import Ways

SETTLED_S = 120.0
ENDED_S = 60.0
LABEL = "disk"
RATE = 10
"""Numbers a second."""

SETTING = "topology.max.spout.pending"
SOON_S = 5.0
"""After this time a topology that runs has taken over what was ordered."""

LARGE = 8
"""One seed in so many is a large cluster."""


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
        at_once = self.chance.random() < 0.5
        delay_s = 0.0 if at_once else self.chance.choice((0.0, 0.003, 0.03))
        self.ways = Ways(world, self.store, at_once=at_once, delay_s=delay_s)
        self.tree.silent_s = 0.0 if at_once else SESSION_S
        self.tree.round_s = ROUND_S if delay_s else 0.0
        self.tree.on_expired = self.ways.expired
        self.machines = Machines(world, self._run_process, several=self.chance.random() < 0.5)
        self.nodes = Nodes(world, self.ways, several=self.machines.several)
        self.machines.is_full = self.nodes.is_full
        self.result = ClusterResult(seed, world.problems)
        self.faults = Faults(self, self.result.faults)
        self.daemons: list[Process] = []
        self.running: dict[str, RunningTopology] = {}  # what the last parent runs
        self.changed: dict[str, int] = {}  # the setting that was ordered last
        self.bad_node = self.chance.choice(("", "", "c"))
        self.over = False
        self._draw_size()

    def _draw_size(self) -> None:
        chance = self.chance
        large = chance.randrange(LARGE) == 0
        count = 3 if large else chance.choice((2, 2, 3))
        self.nimbuses = [f"nimbus-{index + 1}" for index in range(count)]
        self.supervisors = "abcd" if large else "abc"[: 3 if self.bad_node else chance.choice((2, 2, 3))]
        self.labelled = ""  # the nodes to which a component is pinned; empty: none is
        if self.result.seed % 3 == 0:
            self.labelled = self.tree.labelled = "b" if self.supervisors == "ab" else "ab"
        self.names = [*TARGETS] if large else [chance.choice(("numbers", "numbers", "exact"))]

    # -- programs ------------------------------------------------------------------------------------------------------

    async def _run_process(self, process: Process, key: Key, supervisor: str) -> int:
        self.nodes.set_clock(process)
        pid = next(pid for pid, found in self.machines.by_pid.items() if found == (process, process.incarnation))
        if self.machines.targets[pid][0] == topology.CRASHING_TARGET:
            return 1
        if key.process == PARENT_PROCESS:

            def left(code: int) -> None:
                self.machines.codes[pid] = code

            try:
                name = key.topology

                async def serve(running: RunningTopology) -> None:
                    self.running[name] = running

                return await run_parent(process, self.ways, name, supervisor, f"{process.name}:1", left, serve)
            except* CoordinationError:  # as the command does
                left(NO_STORE)
            return NO_STORE
        if supervisor == self.bad_node:
            await asyncio.sleep(0.3)
            return 1
        parent: Any = f"{key.topology}:1"
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
            self.nodes.set_clock(process)
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
                if daemon.alive or self.nodes.is_off(daemon):
                    continue
                if self.over or self.chance.random() < 0.3:
                    daemon.start()

    # -- the run -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with self.store.client(session_s=3600.0) as client, asyncio.TaskGroup() as group:
            await make_folders(client)
            for name in self.nimbuses:
                self._nimbus(name)
            for name in self.supervisors:
                self._supervisor(name)
            for daemon in self.daemons:
                daemon.start()
            tasks = [group.create_task(work) for work in (self._keep_daemons(), self._offer(), self._look())]
            await self._submit(client)
            tasks.append(group.create_task(self._change_settings(client)))
            await self.faults.go_on(client)
            self._end_faults()
            await self._settle(client)
            for name in self.names:
                await want(client, name, "KILLED")
            await self._until("all of it has ended", self._has_ended, ENDED_S)
            for task in tasks:
                task.cancel()
            for daemon in self.daemons:
                daemon.kill("the world ends")
        self._measure()

    async def _submit(self, client: Any) -> None:
        auto: dict[str, Any] = {AUTO_KEY: self.result.seed % 2 == 0}
        for name in self.names:
            self.done[name].here = self._here
            pins = {TARGETS[name].sink: frozenset({LABEL})} if self.labelled else {}
            count = self.chance.choice((2, 3))
            record = TopologyRecord(TARGETS[name].first, config=auto, workers=count, pins=pins)
            await submit(client, name, record)
        await self._until("the topologies run", self._run_all, 120 if self.bad_node else 60)

    def _end_faults(self) -> None:
        self.over = True
        self.nodes.restore()
        self.ways.restore()
        if self.machines.several:  # all goes on without one node
            lost = self.chance.choice("a" if self.labelled == "b" else self.supervisors)
            self.faults.say("node", f"{lost}, for good")
            self.nodes.fault("node", lost, float("inf"))
            self.machines.notes.pop(lost, None)  # its disk is lost, too
        self.store.away = False
        self.world.disk(topology.PLACE).heal()

    async def _settle(self, client: Any) -> None:
        offered = {name: set(range(self.done[name].offered)) for name in self.names}
        for name in self.names:
            await want(client, name, "ACTIVE")

        def is_acked() -> bool:
            return all(self.done[name].acked >= offered[name] for name in self.names) and self._run_all()

        def as_assigned() -> bool:
            return all(map(self._is_as_assigned, self.names))

        await self._until("all is acked", is_acked, SETTLED_S)
        await self._until("every process runs once, where it is assigned", as_assigned, ENDED_S)
        await self._until("the settings that were changed hold", self._as_changed, SOON_S)
        for name in self.names:
            await self._replace(client, name)

    async def _replace(self, client: Any, name: str) -> None:
        """In peace, other code runs."""
        target = self.other_target(name)
        await replace_code(client, name, lambda before: replace(before, target=target))
        await self._until("the other code runs", partial(self._runs, name), ENDED_S)
        await self._until("the settings that were changed hold with it", self._as_changed, SOON_S)
        record: TopologyRecord = self._node(TOPOLOGIES, name, TopologyRecord)
        if record.refused is not None or record.target != target:
            self.world.problem(f"other code was taken back: {record.refused}")

    def _measure(self) -> None:
        result = self.result
        for name in self.names:
            done = self.done[name]
            if lost := done.acked - done.executed.keys():
                self.world.problem(f"{len(lost)} numbers of {name} were acked, and never executed")
            if done.twice:
                self.world.problem(f"{len(done.twice)} numbers of {name} were committed twice: {done.twice[:5]}")
            elsewhere = {each for each in done.last_ran_in if self.labelled and each[-1] not in self.labelled}
            if elsewhere:
                self.world.problem(f"tasks of a pinned component ran in {', '.join(sorted(elsewhere))}")
            result.acked += len(done.acked)
            result.twice += sum(done.executed.values()) - len(done.executed)
        result.moves, result.joined = self.tree.moves, self.tree.joined
        result.simulated_s = self.world.now_s

    async def _offer(self) -> None:
        while not self.over:
            for name in self.names:
                self.done[name].offered += 1
            await asyncio.sleep(1 / RATE)

    async def _change_settings(self, client: Any) -> None:
        """Another limit of pending messages now and then, drawn for itself: the other draws of a seed are as before."""
        chance = random.Random(f"{self.result.seed} settings")
        while not self.over:
            await asyncio.sleep(chance.uniform(1.0, 12.0))
            name, most = chance.choice(self.names), chance.randint(200, 2_000)
            if self.over or self.store.away:
                continue
            try:
                await update(client, name, {SETTING: most})
                self.changed[name] = most
            except UnavailableError:  # it may be written all the same
                self.changed.pop(name, None)

    def _as_changed(self) -> bool:
        return all(self.running[name].config.max_spout_pending == most for name, most in self.changed.items())

    async def _look(self) -> None:
        """Sessions end also while nothing is written; and a store that is away has no news of who is missing."""
        while True:
            self.ways.look()
            self.store.expire()
            self.tree.look()
            self.nodes.rewire()
            await asyncio.sleep(LOOK_S)

    # -- what must be --------------------------------------------------------------------------------------------------

    def other_target(self, name: str) -> str:
        """The code that the topology does not run."""
        record: TopologyRecord = self._node(TOPOLOGIES, name, TopologyRecord)
        targets = TARGETS[name]
        return targets.first if record.target == targets.other else targets.other

    def processes(self, name: str) -> list[str]:
        """Those of a topology that are alive."""
        alive = [process.name for process in self.world.processes.values() if process.alive]
        return sorted(each for each in alive if each == name or each.startswith(f"{name}."))

    def _here(self) -> str:
        """The process whose event loop runs now."""
        loop = asyncio.get_running_loop()
        return next(each.name for each in self.world.processes.values() if each.incarnation and each.loop is loop)

    def _node(self, folder: str, name: str, kind: Any) -> Any:
        node = self.tree.nodes.get(path_of(folder, name))
        return None if node is None else unpack(kind, folder, node.value)

    def _run_all(self) -> bool:
        return all(map(self._runs, self.names))

    def _runs(self, name: str) -> bool:
        parent: ParentRecord | None = self._node(PARENTS, name, ParentRecord)
        assignment: AssignmentRecord | None = self._node(ASSIGNMENTS, name, AssignmentRecord)
        record: TopologyRecord | None = self._node(TOPOLOGIES, name, TopologyRecord)
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

    def _is_as_assigned(self, name: str) -> bool:
        assignment: AssignmentRecord = self._node(ASSIGNMENTS, name, AssignmentRecord)
        parent = f"{name}.{PARENT_PROCESS}@{assignment.parent}" if self.machines.several else name
        wanted = [parent, *(f"{name}.worker-{i + 1}@{on}" for i, on in enumerate(assignment.workers))]
        return self.processes(name) == sorted(wanted) and self.bad_node not in assignment.workers

    def _has_ended(self) -> bool:
        left = [
            path
            for name in self.names
            for folder in (TOPOLOGIES, ASSIGNMENTS, PARENTS)
            if (path := path_of(folder, name)) in self.tree.nodes
        ]
        return not left and not any(map(self.processes, self.names)) and not any(self.machines.notes.values())

    async def _until(self, what: str, condition: Callable[[], bool], within_s: float) -> None:
        until_s = self.world.now_s + within_s
        while not condition():
            if self.world.now_s >= until_s:
                raise AssertionError(f"not within {within_s:g} s: {what}; {' '.join(map(self._state, self.names))}")
            await asyncio.sleep(0.1)

    def _state(self, name: str) -> str:
        done = self.done[name]
        left = set(range(done.offered)) - done.acked
        return (
            f"{name}: {len(left)} of {done.offered} not acked; parent {self._node(PARENTS, name, ParentRecord)}; "
            f"assignment {self._node(ASSIGNMENTS, name, AssignmentRecord)}; processes {self.processes(name)}; "
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
