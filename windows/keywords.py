"""Keywords: the settings of bolts with windows that may be given as arguments, with their types.

1. A type checker knows each name and type; an unknown name is a TypeError when the bolt is made, with a suggestion.
2. None means not given: the class attribute holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypedDict

from ..topology import Outputs, nearest

if TYPE_CHECKING:
    from .generators import Generator
    from .late import LatePolicy
    from .rows import Key, Timestamp
    from .watermarks import WatermarkPolicy


class SharedSettings(TypedDict, total=False):
    """The settings of every bolt with windows; WindowBolt documents them."""

    timestamp: Timestamp
    lag_ms: int | None
    interval_ms: int | None
    max_advance_ms: int | None
    idle_timeout_ms: int | None
    allowed_lateness_ms: int | None
    late: LatePolicy | None
    late_stream: str | None
    policy: WatermarkPolicy | None
    ratio: float | None
    generator: Callable[[], Generator] | None
    max_states: int | None
    fire_when_idle: bool | None


class WindowSettings(SharedSettings, total=False):
    """The settings of bolts that choose their key and outputs."""

    key: Key
    outputs: Outputs


def given_settings(bolt: object, settings: Mapping[str, object]) -> dict[str, object]:
    """The settings that are not None. TypeError for an unknown name."""
    for name in settings:
        if name not in WindowSettings.__annotations__:
            own = inspect.signature(type(bolt).__init__).parameters.values()
            named = {p.name for p in own if p.name != "self" and p.kind is not p.VAR_KEYWORD}
            known = {"windows", *named, *WindowSettings.__annotations__}
            meant = nearest(name, known)
            hint = f"did you mean {meant!r}?" if meant is not None else f"there are: {', '.join(sorted(known))}"
            raise TypeError(f"{type(bolt).__name__} has no setting {name!r}; {hint}")
    return {name: value for name, value in settings.items() if value is not None}
