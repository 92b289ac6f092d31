"""Liveness: every default of a heartbeat, a lease, a stall limit and a grace period, in one place, and their order.

    heartbeat ──────► timeout (lease) ──────► replaced
       a process says      its observer gives          another process
       that it lives       it up after this            does its work

1. The observer waits longer than the interval of the observed: several heartbeats fit into a timeout.
2. A worker gives up its parent no later than the parent gives up the worker: so no two processes do the work of one.
   A worker that dies with its parent anyway may wait longer.
3. Settings are checked where they are made: wrong ones are refused at the start, with what to change.

Storm: supervisor.worker.timeout.secs and its kin, whose defaults are 30 s; topology/liveness_config.py has the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """Seconds. ValueError if they are not in order. The settings of a topology are `Config.liveness`."""

    # A link between two processes.
    link_heartbeat_s: float = 2.0
    """A side that has sent nothing for so long sends a heartbeat."""
    link_timeout_s: float = 3.0
    """A connection on which nothing has arrived for so long is closed, and another is opened."""
    link_connect_timeout_s: float = 5.0
    """A connection must be open, and its peer authenticated, within this time."""
    link_drain_timeout_s: float = 5.0
    """A link that is closed sends what waits for so long."""

    # A worker, as its parent observes it.
    worker_monitor_s: float = 0.25
    """The parent asks each worker for its state so often; the answer is a sign of life."""
    worker_timeout_s: float = 5.0
    """A worker without a sign of life for so long is killed and started again."""
    worker_start_timeout_s: float = 60.0
    """A worker must be ready within this time after its start."""
    worker_stop_timeout_s: float = 10.0
    """A worker that was asked to stop, and does not answer, is killed after this time."""
    worker_shutdown_s: float = 2.0
    """A worker that has stopped its tasks has so long to end by itself."""
    worker_replace_timeout_s: float = 60.0
    """A worker that leaves (SIGTERM) must have a successor within this time; its spouts rest for so long at most."""
    parent_stall_s: float = 1.0
    """A parent that looked so much later than it wanted to was held up itself: it gives up no worker then."""

    # A parent, as its worker observes it; and what the worker says of itself.
    worker_heartbeat_s: float = 1.0
    """A worker whose event loop is held by user code sends a heartbeat so often, from a thread."""
    worker_stall_timeout_s: float = 30.0
    """User code that holds the event loop for so long is taken for hung: the heartbeats end."""
    worker_join_timeout_s: float = 30.0
    """A worker tries to reach its parent for so long at its start."""
    parent_timeout_s: float = 5.0
    """A worker ends if it receives nothing from its parent for so long."""
    child_parent_timeout_s: float = 60.0
    """The same of a worker that the system ends with its parent: the parent can only be held up."""
    worker_leave_timeout_s: float = 10.0
    """A worker that was asked to leave (SIGTERM) waits for so long to be taken out."""

    # Of tasks.
    graceful_stop_s: float = 10.0
    """Tasks of a topology that stops have so long to finish what they have accepted."""
    stall_report_s: float = 1.0
    """User code that holds the event loop for so long is reported with its line."""

    # Spark.
    slot_start_timeout_s: float = 120.0
    """A worker in a Spark task must be ready within this time: an executor may have to be started first."""
    slot_timeout_s: float = 3.0
    """A slot whose parent cannot be reached for so long ends its worker."""
    slot_join_timeout_s: float = 20.0
    """A slot tries to reach its parent for so long at its start."""
    slot_cancel_timeout_s: float = 5.0
    """A Spark job that was cancelled, and does not end within this time, is given up."""
    slots_stop_timeout_s: float = 15.0
    """All jobs of a cluster that ends must have ended within this time."""
    jvm_heartbeat_s: float = 10.0
    """The JVM is asked so often whether it answers."""
    jvm_timeout_s: float = 40.0
    """A JVM that does not answer for so long is ended."""
    datasource_heartbeat_s: float = 3.0
    """Each side of a Spark data source says so often that it lives."""
    datasource_timeout_s: float = 15.0
    """A peer of a Spark data source that says nothing for so long is lost."""

    def __post_init__(self) -> None:
        problems = liveness_problems({each.name: getattr(self, each.name) for each in fields(self)}, {})
        if problems:
            raise ValueError("; ".join(problems))


ORDER: Final = (
    # (the shorter one, the longer one, why)
    ("link_heartbeat_s", "link_timeout_s", "or every silence would end a connection"),
    ("link_timeout_s", "worker_timeout_s", "or a worker would be killed before its connection is opened again"),
    ("worker_monitor_s", "worker_timeout_s", "or a worker would be killed between two looks at it"),
    ("worker_heartbeat_s", "worker_timeout_s", "or a worker would be killed while user code holds its event loop"),
    ("worker_heartbeat_s", "worker_stall_timeout_s", "or no heartbeat would be sent"),
    ("worker_timeout_s", "worker_start_timeout_s", "since a start takes longer than an answer"),
    ("parent_timeout_s", "worker_timeout_s", "or two processes could do the work of one"),
    ("slot_timeout_s", "worker_timeout_s", "or two processes could do the work of one"),
    ("parent_timeout_s", "child_parent_timeout_s", "since a worker that dies with its parent may wait longer"),
    ("jvm_heartbeat_s", "jvm_timeout_s", "or a JVM would be ended between two questions"),
    ("datasource_heartbeat_s", "datasource_timeout_s", "or every silence would end a data source"),
)
"""What must not be longer than what. A heartbeat must be shorter than its timeout."""


def liveness_problems(settings: Mapping[str, float], names: Mapping[str, str]) -> list[str]:
    """What is wrong with these settings (all of LivenessSettings), and what to change.

    `names`: for messages, how a setting was given, with its value.
    """

    def shown(name: str) -> str:
        return names.get(name, f"{name} = {settings[name]:g}")

    problems = [f"{shown(name)}: must be more than 0" for name, value in settings.items() if value <= 0]
    for short, long, why in ORDER:
        beats = short.endswith(("heartbeat_s", "monitor_s"))
        if settings[short] > settings[long] or (beats and settings[short] == settings[long]):
            than = "shorter than" if beats else "at most as long as"
            problems.append(f"{shown(short)} must be {than} {shown(long)}, {why}: lower the first or raise the second")
    return problems


LIVENESS: Final = LivenessSettings()
"""The defaults."""
