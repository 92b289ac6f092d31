"""Guarantees: what of a topology cannot run with the guarantee of its configuration, and what a restart loses.

| guarantee | refused |
|---|---|
| exactly-once | spouts that cannot begin again at a position, or that commit in `ack`; cycles |
| at-least-once | spouts whose acked messages are not read again, in front of incremental windows |
| at-least-once, at-most-once | bolts that commit with snapshots |

1. Each component says what it refuses when the topology is built (`Component.refused`). It is an error when the
   guarantee is known: when the topology is submitted, or built with a configuration that names the guarantee.
2. With at-least-once, windows and state are kept in memory, and their rows are acked: after a restart these do not come
   again. That is allowed, and said once, unless the configuration names this guarantee.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .feedback import feedback_edges
from .retention import lossy_windows

if TYPE_CHECKING:
    from .config import Config
    from .topology import Topology


def guarantee_problems(topology: Topology, config: Config) -> list[str]:
    """Everything that cannot run with the guarantee of `config`, each with its component and what to do."""
    guarantee = config.guarantee
    problems = [
        f"{spec.kind} {spec.id!r}: {problem}"
        for spec in topology.components.values()
        for problem in spec.refused.get(guarantee, ())
    ]
    if guarantee == "exactly-once":
        problems += [
            f"bolt {consumer!r}: its subscription to {source} closes a cycle, and rows in a cycle are in no snapshot: "
            "remove it, or use guarantee=at-least-once"
            for source, consumer in sorted(feedback_edges(topology), key=str)
        ]
    elif guarantee == "at-least-once":
        problems += lossy_windows(topology.components)
    return problems


def lost_at_restart(topology: Topology, config: Config) -> str:
    """What a restart loses with at-least-once, in one line for the log; empty: nothing, or the guarantee was chosen."""
    if config.source_of("guarantee") != "default":
        return ""
    windows = [repr(spec.id) for spec in topology.components.values() if spec.time.loses_windows]
    states = [repr(spec.id) for spec in topology.components.values() if spec.state is not None]
    parts = [f"{what} of {', '.join(names)}" for what, names in (("windows", windows), ("state", states)) if names]
    if not parts:
        return ""
    return (
        f"only in memory with at-least-once, its guarantee: {' and '.join(parts)}. After a restart they are empty, and "
        "rows that were acked do not come again. To keep them: Config(guarantee='exactly-once', state_dir='…') or "
        "aiostorm run --guarantee exactly-once --state DIR. To accept it: Config(guarantee='at-least-once')"
    )
