"""Assignment: a topology that is to run on workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...topology import Config
from .worker_life import LifeTimings


@dataclass(frozen=True, slots=True)
class Assignment:
    """A topology for workers: its target, and how many local and remote workers it gets."""

    target: str
    arguments: tuple[str, ...] = ()
    workers: int = 1
    remote_workers: int = 0
    timings: LifeTimings = field(default_factory=LifeTimings)


def settings_of(config: Config) -> dict[str, Any]:
    """The settings of a configuration, to be sent to workers."""
    return {**{key: getattr(config, key) for key in config.model_fields_set}, **config.user}
