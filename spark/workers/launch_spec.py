"""Launch spec: what a slot starts, as part of the closure of its job.

1. It contains no secret, only the path of a file that the slot reads on its machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

ANY_HOST: Final = "*"
"""In an address: the name of the slot's machine."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """The launch of `slot`: connect to `parent` (`parent_name`), start `aiostorm <command>` as `worker`.

    `credentials`: a file with the token (`is_file`) or a directory of `aiostorm certs` on its machine; empty: none.
    `host`: how others reach the machine; empty: by its own name. `version`: the driver's aiostorm. `folder`: the
    driver's current directory, if the slot is on the same machine.
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
        """The spec as plain values: the task that unpickles it may not have aiostorm."""
        return {**asdict(self), "command": list(self.command)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "command": tuple(values["command"])})
