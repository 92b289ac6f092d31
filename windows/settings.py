"""Settings of bolts with windows: from the bolt, or from its config where the bolt has None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .assigners import duration, whole
from .errors import WindowError
from .generators import Generator, Periodic
from .values import is_a

if TYPE_CHECKING:
    from ..topology import Config
    from .bolts import WindowBolt
    from .watermarks import WatermarkPolicy


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """The settings of one component. Durations in milliseconds; `idle_timeout_ms`, `max_advance_ms`: None for off."""

    lag_ms: int
    interval_ms: int
    max_advance_ms: int | None
    idle_timeout_ms: int | None
    allowed_lateness_ms: int
    policy: WatermarkPolicy
    ratio: float
    max_states: int
    generator: Callable[[], Generator] | None

    @classmethod
    def of(cls, bolt: WindowBolt, config: Config) -> TimeSettings:
        """The settings of a bolt. WindowError if one of them is wrong."""
        lag_ms = _given(bolt.lag_ms, config.watermark_lag_ms)
        return cls(
            lag_ms=duration(lag_ms, "lag_ms", 0),
            interval_ms=whole(_given(bolt.interval_ms, config.watermark_interval_ms), "interval_ms"),
            max_advance_ms=_optional(_given(bolt.max_advance_ms, config.watermark_max_advance_ms), "max_advance_ms"),
            idle_timeout_ms=_optional(
                _given(bolt.idle_timeout_ms, config.watermark_idle_timeout_ms), "idle_timeout_ms"
            ),
            allowed_lateness_ms=duration(bolt.allowed_lateness_ms, "allowed_lateness_ms", 0),
            policy=bolt.policy,
            ratio=bolt.ratio,
            max_states=whole(_given(bolt.max_states, config.window_max_states), "max_states"),
            generator=bolt.generator,
        )

    def without_lag(self) -> TimeSettings:
        """The settings for a task that only forwards watermarks."""
        return replace(self, lag_ms=0)

    def new_generator(self) -> Generator:
        """A generator for one input task."""
        if self.generator is None:
            return Periodic(self.lag_ms, self.interval_ms, self.max_advance_ms)
        if not callable(self.generator):
            raise WindowError(f"generator is {self.generator!r}; give a function that makes one: lambda: Periodic(…)")
        try:
            made = self.generator()
        except Exception as error:
            raise WindowError(f"generator() raised {type(error).__name__}: {error}") from error
        if not is_a(made, Generator):
            raise WindowError(f"generator() made {made!r}; give a function that makes a Generator: lambda: Periodic(…)")
        return made


def _given(own: int | None, config: int | None) -> int | None:
    return config if own is None else own


def _optional(value: object, what: str) -> int | None:
    """0 means that there is none."""
    return None if value is None or value == 0 else whole(value, what)
