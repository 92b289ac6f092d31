"""Hosting: which tasks of a topology a worker runs, and how it reaches the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..topology import (
    BARRIER_FIELDS,
    BARRIER_STREAM,
    WATERMARK_FIELDS,
    WATERMARK_STREAM,
    Config,
    Origin,
    Plan,
    Topology,
)
from ..transport import PeerRouter, ProtocolError, RemoteTask

MASTER_TUPLES: Final = 2
"""The capacity of the topology master's mailbox, which gets no data."""

_OF_THE_FRAMEWORK: Final = {WATERMARK_STREAM: WATERMARK_FIELDS, BARRIER_STREAM: BARRIER_FIELDS}
"""The fields of streams that no component declares."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """`placement`: task id → worker; `nodes`: worker → its machine (missing: one of its own); `router`: a Node.

    `build`: see Exchange.
    """

    worker: str
    placement: Mapping[int, str]
    router: PeerRouter
    nodes: Mapping[str, str] = field(default_factory=dict)
    build: int = 0

    @property
    def peers(self) -> frozenset[str]:
        """The other workers."""
        return frozenset(self.placement.values()) - {self.worker}

    @property
    def master(self) -> str:
        """The worker with the topology master: the worker of the first task."""
        return self.placement[min(self.placement)]

    def near(self) -> frozenset[int]:
        """The tasks on this machine, including those of this worker."""
        mine = self.nodes.get(self.worker, self.worker)
        return frozenset(
            task_id for task_id, worker in self.placement.items() if self.nodes.get(worker, worker) == mine
        )


def remote_tasks(plan: Plan, hosting: Hosting, config_of: Mapping[int, Config]) -> dict[int, RemoteTask]:
    """The tasks of other workers, by id."""
    found: dict[int, RemoteTask] = {}
    for task in plan.tasks:
        worker, config = hosting.placement[task.task_id], config_of[task.task_id]
        if worker != hosting.worker:
            found[task.task_id] = RemoteTask(
                worker, config.mailbox_capacity_tuples, config.mailbox_high_mark, config.mailbox_low_mark
            )
    if hosting.master != hosting.worker:
        found[plan.master] = RemoteTask(hosting.master, MASTER_TUPLES)
    return found


def origins(topology: Topology, plan: Plan) -> Callable[[int, str], Origin]:
    """(task, stream) → the origin of its tuples: one object for each, as in the task's own worker."""
    component_of = {task.task_id: task.component for task in plan.tasks}
    known: dict[tuple[int, str], Origin] = {}

    def origin_of(task_id: int, stream: str) -> Origin:
        found = known.get((task_id, stream))
        if found is None:
            spec = topology.components.get(component_of.get(task_id, ""))
            fields = _OF_THE_FRAMEWORK.get(stream)
            if spec is not None and stream in spec.outputs:
                fields = spec.outputs[stream].fields
            if spec is None or fields is None:
                raise ProtocolError(
                    f"task {task_id} has no stream {stream!r:.140}: another topology, or another version"
                )
            found = known[task_id, stream] = Origin(spec.id, task_id, stream, fields)
        return found

    return origin_of
