"""Slot order: what a Spark task is to do, as it goes into the closure of its job.

1. It holds no secret: it holds the path of a file, which the slot reads where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

ANY_HOST: Final = "*"
"""In an address: the name of the machine that the slot finds itself on."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What a slot is to do: be `slot`, dial `parent` (`parent_name`), start `aiostorm <words>` as `worker`.

    `credentials`: a file with the token (`is_file`) or a directory that `aiostorm certs` has made, there; empty: none.
    `host`: how others reach the machine; empty: by its own name. `version`: the driver's aiostorm. `folder`: its
    current directory, if the slot is on the same machine.
    """

    slot: str
    worker: str
    parent: str
    parent_name: str
    command: tuple[str, ...]
    version: str
    credentials: str = ""
    is_file: bool = False
    insecure: bool = False
    host: str = ""
    folder: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain values: the task that unpacks it may not have aiostorm."""
        return {**asdict(self), "command": list(self.command)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Back again."""
        return cls(**{**values, "command": tuple(values["command"])})
