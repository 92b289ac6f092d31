"""Command errors: the error that a parent raises for a command that failed in a worker."""

from __future__ import annotations

from collections.abc import Mapping

from ...topology import ConfigError, TopologyError
from ..errors import WorkerError
from ..fingerprint import differences
from ..messages import CODE_DIFFERS, CommandFailed
from ..targets import TargetError


def command_error(worker: str, failed: CommandFailed, code: Mapping[str, str]) -> Exception:
    """The error for a CommandFailed. `code`: the parent's own modules (see fingerprint)."""
    if failed.kind == CODE_DIFFERS:
        there = dict(zip(failed.problems[::2], failed.problems[1::2], strict=False))
        lines = "\n  ".join(differences(code, there))
        return WorkerError(
            f"{worker} has different code of this topology: install the same version on both, or start it with "
            f"--allow-different-code\n  {lines}"
        )
    if failed.kind == "ConfigError":
        return ConfigError(*failed.problems)
    if failed.kind == "TopologyError":
        return TopologyError(list(failed.problems))
    text = "; ".join(failed.problems)
    return TargetError(f"{worker}: {text}") if failed.kind == "TargetError" else WorkerError(f"{worker}: {text}")
