"""The liveness settings of a topology: when a process that does not answer counts as lost.

The defaults come from `runtime.LivenessSettings`. It also has settings that no topology can change, because a link is
opened before there is a topology.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, Field

from ..runtime import LIVENESS, LivenessSettings, liveness_problems


def setting(default: Any, description: str, *keys: str, **limits: Any) -> Any:
    """A field with Storm's and JStorm's keys as its aliases."""
    return Field(default, description=description, json_schema_extra={"keys": list(keys)}, **limits)


def no_flag(value: Any) -> Any:
    """Python accepts True as 1; a setting does not."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number, not true or false")
    return value


Seconds = Annotated[float, BeforeValidator(no_flag)]


class LivenessConfig(BaseModel):
    """The liveness settings in Config."""

    worker_timeout_s: Seconds = setting(
        LIVENESS.worker_timeout_s,
        "Seconds without a sign of life after which a worker is killed and restarted.",
        "supervisor.worker.timeout.secs",
        "topology.worker.timeout.secs",
        gt=0,
    )
    worker_start_timeout_s: Seconds = setting(
        LIVENESS.worker_start_timeout_s,
        "Seconds after its start within which a worker must be ready.",
        "supervisor.worker.start.timeout.secs",
        gt=0,
    )
    worker_monitor_s: Seconds = setting(
        LIVENESS.worker_monitor_s,
        "Seconds between two requests of the parent to a worker: for its metrics, and as a sign of life.",
        "supervisor.monitor.frequency.secs",
        gt=0,
    )
    worker_stop_timeout_s: Seconds = setting(
        LIVENESS.worker_stop_timeout_s,
        "Seconds after which a worker that was asked to stop and does not answer is killed.",
        "topology.worker.stop.timeout.secs",
        gt=0,
    )
    worker_shutdown_s: Seconds = setting(
        LIVENESS.worker_shutdown_s,
        "Seconds that a worker has to end after its tasks have stopped; then it is killed.",
        "supervisor.worker.shutdown.sleep.secs",
        gt=0,
    )
    worker_leave_timeout_s: Seconds = setting(
        LIVENESS.worker_leave_timeout_s,
        "Seconds that a worker waits after SIGTERM until its work is done; then it ends.",
        "topology.worker.leave.timeout.secs",
        gt=0,
    )
    worker_replace_timeout_s: Seconds = setting(
        LIVENESS.worker_replace_timeout_s,
        "Seconds for which spouts pause at most while a leaving worker is replaced.",
        "topology.worker.replace.timeout.secs",
        gt=0,
    )
    worker_parent_timeout_s: Seconds = setting(
        LIVENESS.parent_timeout_s,
        "Seconds without its parent after which a worker on another machine ends.",
        "topology.worker.parent.timeout.secs",
        gt=0,
    )
    worker_child_parent_timeout_s: Seconds = setting(
        LIVENESS.child_parent_timeout_s,
        "The same for a worker that its parent has started.",
        "topology.worker.child.parent.timeout.secs",
        gt=0,
    )

    @property
    def liveness(self) -> LivenessSettings:
        """These settings, with those that are the same for all topologies. They are in order."""
        return replace(LIVENESS, **_values(self))

    def liveness_problems(self, written: dict[str, str]) -> list[str]:
        """Settings that are not in order, with advice. `written`: how a setting was given."""
        values = _values(self)
        names = {name: written.get(field, f"{field} = {values[name]:g} (default)") for field, name in _SETTINGS.items()}
        return liveness_problems({**_FIXED, **values}, names)


_PARENT: Final = {
    "worker_parent_timeout_s": "parent_timeout_s",
    "worker_child_parent_timeout_s": "child_parent_timeout_s",
}
_SETTINGS: Final = {name: _PARENT.get(name, name) for name in LivenessConfig.model_fields}
"""Field of Config → field of LivenessSettings."""

_FIXED: Final = {name: getattr(LIVENESS, name) for name in LivenessSettings.__slots__}


def _values(config: LivenessConfig) -> dict[str, float]:
    return {name: getattr(config, field) for field, name in _SETTINGS.items()}
