"""Troubles: what a worker cannot do, as the error that its parent raises."""

from __future__ import annotations

from ..topology import ConfigError, TopologyError
from .errors import WorkerError
from .messages import Trouble
from .targets import TargetError


def trouble_error(worker: str, trouble: Trouble) -> Exception:
    """What the parent raises."""
    if trouble.kind == "ConfigError":
        return ConfigError(*trouble.problems)
    if trouble.kind == "TopologyError":
        return TopologyError(list(trouble.problems))
    text = "; ".join(trouble.problems)
    return TargetError(f"{worker}: {text}") if trouble.kind == "TargetError" else WorkerError(f"{worker}: {text}")
