"""The program of `aiostorm check-target`: imports a target, makes its topology, and checks it as `aiostorm run` does.

1. Only the document goes to the standard output: what user code prints goes to the standard error, also if it writes
   past sys.stdout.
2. The process ends at once after it: threads of user code do not keep it.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ..cluster import TargetError, import_topology
from ..topology import Config, ConfigError, TopologyError, make_plan

if TYPE_CHECKING:
    from ..topology import Topology

MAX_SETTINGS_BYTES: Final = 65_536


class Tasks(NamedTuple):
    """Component → tasks. `kept`: of a topology whose code is replaced: some of its components may be missing now."""

    given: Mapping[str, int]
    kept: Mapping[str, int] = {}

    def of(self, topology: Topology) -> dict[str, int]:
        """Those that hold."""
        kept = {name: count for name, count in self.kept.items() if name in topology.components}
        return {**kept, **self.given}


def read_settings() -> dict[str, Any]:
    """The settings from the standard input: a JSON object."""
    data = sys.stdin.buffer.read(MAX_SETTINGS_BYTES + 1)
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("the settings are no JSON object")
    return found


def look_in(paths: Sequence[str], folder: str | None) -> None:
    """Find modules in these folders; with `folder`, which becomes the current one, not in the one before."""
    if folder is not None:
        before = os.getcwd()
        os.chdir(folder)
        sys.path[:] = [path for path in sys.path if path not in ("", before)]
    sys.path += [path for path in paths if path not in sys.path]


def check(
    target: str,
    arguments: tuple[str, ...],
    settings: Mapping[str, Any],
    paths: Sequence[str] = (),
    tasks: Tasks | None = None,
) -> dict[str, Any]:
    """The document."""
    try:
        found, topology = import_topology(target, arguments, own=True)
    except TargetError as error:
        return {"ok": False, "problems": [f"{error}{_modules(paths)}"]}
    try:
        parallelism = {} if tasks is None else tasks.of(topology)
        topology = topology.with_parallelism(parallelism)
        config = Config.load(None, {}, settings, topology.config)
        if problems := _above(config.max_task_parallelism, parallelism):
            return {"ok": False, "problems": problems}
        plan = make_plan(topology, config)
    except (ConfigError, TopologyError) as error:
        return {"ok": False, "problems": list(error.problems)}
    own = topology.config
    return {
        "ok": True,
        "problems": [],
        "name": topology.name or found.default_name,
        "tasks": len(plan.tasks),
        "components": {
            name: {"kind": spec.kind, "tasks": len(plan.tasks_of[name])} for name, spec in topology.components.items()
        },
        "spouts": [name for name, spec in topology.components.items() if spec.kind == "spout"],
        "workers": own.workers if own is not None and "workers" in own.model_fields_set else None,
        "guarantee": config.guarantee,
        "state": config.state_dir or "",
        "file": getattr(sys.modules.get(found.module), "__file__", None) or "",
        "parallelism": parallelism,
    }


def run_check(
    target: str,
    arguments: tuple[str, ...],
    settings: Mapping[str, Any],
    paths: Sequence[str] = (),
    tasks: Tasks | None = None,
) -> NoReturn:
    """Print the document, and end the process: code 0 if the topology can be submitted, else 1."""
    out = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    document = check(target, arguments, settings, paths, tasks)
    with open(out, "wb", buffering=0) as standard_output:
        standard_output.write(json.dumps(document).encode() + b"\n")
    sys.stderr.flush()
    os._exit(0 if document["ok"] else 1)


def _above(cap: int | None, parallelism: Mapping[str, int]) -> list[str]:
    """Numbers of tasks that would not be reached."""
    return [
        f"{name!r} cannot have {count} tasks: topology.max.task.parallelism is {cap}"
        for name, count in parallelism.items()
        if cap is not None and count > cap
    ]


def _modules(paths: Sequence[str]) -> str:
    """What can be imported from the submitted code, for an error."""
    if not paths:
        return ""
    names = sorted({module.name for module in pkgutil.iter_modules(paths)})
    return f" (the submitted code has {', '.join(names[:20]) or 'no modules at its top'})"
