"""The liveness settings of a topology: when a process that does not answer counts as lost.

The defaults come from `runtime.LivenessSettings`. It also has settings that no topology can change, because a link is
opened before there is a topology.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, TypedDict, Unpack

from pydantic import BaseModel, BeforeValidator, Field

from ..runtime import LIVENESS, Given, LivenessSettings

if TYPE_CHECKING:
    from .values import Setting


class _Limits(TypedDict, total=False):
    ge: float
    gt: float
    le: float
    lt: float
    min_length: int


def setting(default: Setting, description: str, *keys: str, **limits: Unpack[_Limits]) -> Setting:
    """A field with Storm's and JStorm's keys as its aliases."""
    return Field(default, description=description, json_schema_extra={"keys": list(keys)}, **limits)


def no_flag(value: object) -> object:
    """Python accepts True as 1; a setting does not."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number, not true or false")
    return value


Seconds = Annotated[float, Field(gt=0), BeforeValidator(no_flag)]


class LivenessConfig(BaseModel):
    """The liveness settings in Config."""

    worker_timeout_s: Seconds = setting(
        LIVENESS.worker_timeout_s,
        "Seconds without a sign of life after which a worker is killed and restarted.",
        "supervisor.worker.timeout.secs",
        "topology.worker.timeout.secs",
    )
    worker_start_timeout_s: Seconds = setting(
        LIVENESS.worker_start_timeout_s,
        "Seconds after its start within which a worker must be ready.",
        "supervisor.worker.start.timeout.secs",
    )
    worker_monitor_s: Seconds = setting(
        LIVENESS.worker_monitor_s,
        "Seconds between two requests of the parent to a worker: for its metrics, and as a sign of life.",
        "supervisor.monitor.frequency.secs",
    )
    worker_stop_timeout_s: Seconds = setting(
        LIVENESS.worker_stop_timeout_s,
        "Seconds after which a worker that was asked to stop and does not answer is killed.",
        "topology.worker.stop.timeout.secs",
    )
    worker_shutdown_s: Seconds = setting(
        LIVENESS.worker_shutdown_s,
        "Seconds that a worker has to end after its tasks have stopped; then it is killed.",
        "supervisor.worker.shutdown.sleep.secs",
    )
    worker_leave_timeout_s: Seconds = setting(
        LIVENESS.worker_leave_timeout_s,
        "Seconds that a worker waits after SIGTERM until its work is done; then it ends.",
        "topology.worker.leave.timeout.secs",
    )
    worker_replace_timeout_s: Seconds = setting(
        LIVENESS.worker_replace_timeout_s,
        "Seconds for which spouts pause at most while a leaving worker is replaced.",
        "topology.worker.replace.timeout.secs",
    )
    worker_parent_timeout_s: Seconds = setting(
        LIVENESS.worker_parent_timeout_s,
        "Seconds without its parent after which a worker on another machine ends.",
        "topology.worker.parent.timeout.secs",
    )
    worker_child_parent_timeout_s: Seconds = setting(
        LIVENESS.worker_child_parent_timeout_s,
        "The same for a worker that its parent has started.",
        "topology.worker.child.parent.timeout.secs",
    )

    @property
    def liveness(self) -> LivenessSettings:
        """These settings, with those that are the same for all topologies. They are in order."""
        return replace(LIVENESS, **{name: getattr(self, name) for name in LivenessConfig.model_fields})


FIXED: Final = {
    name: Given(name, getattr(LIVENESS, name), "fixed")
    for name in LivenessSettings.__slots__
    if name not in LivenessConfig.model_fields
}
"""The liveness settings that no topology can change, as an error names them."""
