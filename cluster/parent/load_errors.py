"""Troubles: what a worker cannot do, as the error that its parent raises."""

from __future__ import annotations

from collections.abc import Mapping

from ...topology import ConfigError, TopologyError
from ..errors import WorkerError
from ..fingerprint import differences
from ..messages import CODE_DIFFERS, CommandFailed
from ..targets import TargetError


def trouble_error(worker: str, trouble: CommandFailed, code: Mapping[str, str]) -> Exception:
    """What the parent raises, whose own code that is."""
    if trouble.kind == CODE_DIFFERS:
        there = dict(zip(trouble.problems[::2], trouble.problems[1::2], strict=False))
        lines = "\n  ".join(differences(code, there))
        return WorkerError(
            f"{worker} has other code of this topology: install the same on both, or start it with "
            f"--allow-different-code\n  {lines}"
        )
    if trouble.kind == "ConfigError":
        return ConfigError(*trouble.problems)
    if trouble.kind == "TopologyError":
        return TopologyError(list(trouble.problems))
    text = "; ".join(trouble.problems)
    return TargetError(f"{worker}: {text}") if trouble.kind == "TargetError" else WorkerError(f"{worker}: {text}")
