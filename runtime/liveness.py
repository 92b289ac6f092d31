"""Liveness: every default of a heartbeat, a lease, a stall limit and a grace period, in one place, and their order.

    heartbeat ──────► timeout (lease) ──────► replaced
       sent by a process   its peer counts         another process
       while it runs       it as lost after this   does its work

1. A timeout is longer than the heartbeat's interval: several heartbeats fit into it.
2. A worker's timeout for its parent is not longer than the parent's timeout for the worker: so no two processes do the
   work of one. A worker that dies with its parent anyway may wait longer.
3. Settings are checked when they are made: wrong ones are refused at the start, with the value that is allowed.

Storm: supervisor.worker.timeout.secs and similar keys, whose defaults are 30 s; topology/liveness_config.py has the
keys.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from .setting_order import Given, Order, order_problems


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """All in seconds. ValueError if they are not in order. The settings of a topology are `Config.liveness`."""

    # A link between two processes.
    link_heartbeat_s: float = 2.0
    """A side that has sent nothing for this time sends a heartbeat."""
    link_timeout_s: float = 3.0
    """A connection on which nothing has arrived for this time is closed, and another is opened."""
    link_connect_timeout_s: float = 5.0
    """A connection must be open, and its peer authenticated, within this time."""
    link_drain_timeout_s: float = 5.0
    """A closing link sends its waiting frames for at most this time."""

    # A worker, as its parent observes it.
    worker_monitor_s: float = 0.25
    """The interval at which the parent requests each worker's state; the answer is a sign of life."""
    worker_timeout_s: float = 5.0
    """A worker without a sign of life for this time is killed and restarted."""
    worker_start_timeout_s: float = 60.0
    """A worker must be ready within this time after its start."""
    worker_stop_timeout_s: float = 10.0
    """A worker that was asked to stop and does not answer is killed after this time."""
    worker_shutdown_s: float = 2.0
    """A worker that has stopped its tasks must end within this time."""
    worker_replace_timeout_s: float = 60.0
    """A worker that leaves (SIGTERM) must be replaced within this time; its spouts pause for at most this time."""
    parent_stall_s: float = 1.0
    """A parent that is this late for its own check was delayed itself: it then treats no worker as lost."""

    # A parent, as its worker observes it; and the worker's own reports.
    worker_heartbeat_s: float = 1.0
    """The interval of heartbeats that a thread sends while user code blocks the worker's event loop."""
    worker_stall_timeout_s: float = 30.0
    """User code that blocks the event loop for this time counts as stuck: the heartbeats stop."""
    worker_join_timeout_s: float = 30.0
    """A starting worker tries to connect to its parent for at most this time."""
    worker_parent_timeout_s: float = 5.0
    """A worker ends if it receives nothing from its parent for this time."""
    worker_child_parent_timeout_s: float = 60.0
    """The same for a worker that the system ends with its parent: a silent parent can only be delayed."""
    worker_leave_timeout_s: float = 10.0
    """A worker that was asked to leave (SIGTERM) waits for at most this time to be removed."""

    # Tasks.
    graceful_stop_s: float = 10.0
    """Tasks of a stopping topology have this time to finish their accepted tuples."""
    stall_report_s: float = 1.0
    """User code that blocks the event loop for this time is reported with its line."""

    # Spark.
    slot_start_timeout_s: float = 120.0
    """A worker in a Spark task must be ready within this time: an executor may have to be started first."""
    slot_timeout_s: float = 3.0
    """A slot without a connection to its parent for this time ends its worker."""
    slot_join_timeout_s: float = 20.0
    """A starting slot tries to connect to its parent for at most this time."""
    slot_cancel_timeout_s: float = 5.0
    """A Spark job that was cancelled and does not end within this time is abandoned."""
    slots_stop_timeout_s: float = 15.0
    """All jobs of a stopping cluster must end within this time."""
    jvm_heartbeat_s: float = 10.0
    """The interval at which the JVM is checked for an answer."""
    jvm_timeout_s: float = 40.0
    """A JVM without an answer for this time is ended."""
    datasource_heartbeat_s: float = 3.0
    """The interval of heartbeats between both sides of a Spark data source."""
    datasource_timeout_s: float = 15.0
    """A peer of a Spark data source without a message for this time counts as lost."""

    def __post_init__(self) -> None:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        problems = [f"{name} = {value:g}: must be more than 0" for name, value in values.items() if value <= 0]
        given = {name: Given(name, value, "given") for name, value in values.items()}
        problems += order_problems(values, LIVENESS_ORDER, given, {})
        if problems:
            raise ValueError("; ".join(problems))


LIVENESS_ORDER: Final = (
    Order("link_heartbeat_s", "link_timeout_s", ", or every silence would end a connection", strict=True),
    Order("link_timeout_s", "worker_timeout_s", ", or a worker would be killed before its connection is opened again"),
    Order("worker_monitor_s", "worker_timeout_s", ", or a worker would be killed between two checks", strict=True),
    Order(
        "worker_heartbeat_s",
        "worker_timeout_s",
        ", or a worker would be killed while user code blocks its event loop",
        strict=True,
    ),
    Order("worker_heartbeat_s", "worker_stall_timeout_s", ", or no heartbeat would be sent", strict=True),
    Order("worker_parent_timeout_s", "worker_timeout_s", ", or two processes could do the work of one"),
    Order("slot_timeout_s", "worker_timeout_s", ", or two processes could do the work of one"),
    Order("worker_timeout_s", "worker_start_timeout_s", ", since a start takes longer than an answer"),
    Order(
        "worker_parent_timeout_s",
        "worker_child_parent_timeout_s",
        ", since a worker that dies with its parent may wait longer",
    ),
    Order("jvm_heartbeat_s", "jvm_timeout_s", ", or a JVM would be ended between two checks", strict=True),
    Order("datasource_heartbeat_s", "datasource_timeout_s", ", or every silence would end a data source", strict=True),
)
"""A heartbeat is shorter than its timeout. Sorted as `order_problems` wants it."""


LIVENESS: Final = LivenessSettings()
"""The defaults."""
