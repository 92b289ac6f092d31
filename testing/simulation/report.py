"""The report of a failing seed: what was done to the system, what happened last, and commands to continue.

1. Every command is one line that can be pasted into a shell.
2. Faults have the numbers of the whole script, also when some were left out: `--simulation-only` takes them.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .faults import Fault
    from .trace import Trace

LAST_EVENTS: Final = 40


def script_lines(script: Sequence[Fault], only: Collection[int] | None) -> list[str]:
    """The faults of a script, numbered, except those that were left out."""
    if not script:
        return ["no faults"]
    kept = [(i, fault) for i, fault in enumerate(script) if only is None or i in only]
    left_out = len(script) - len(kept)
    head = "fault script" if not left_out else f"fault script ({len(kept)} of {len(script)})"
    if not kept:
        return [f"{head}: none of these faults is needed"]
    return [f"{head}: number, true second, kind", *(f"{f'[{i}]':>6} {fault}" for i, fault in kept)]


def trace_lines(trace: Trace, last: int = LAST_EVENTS) -> list[str]:
    """The end of the trace."""
    if not trace.count:
        return ["nothing has happened: the test has not run a topology"]
    return ["the end of the trace: true second, who -> to whom: what", *trace.text(last).splitlines()]


def commands(nodeid: str, only: Collection[int] | None, *, shrinks: bool) -> list[str]:
    """How to continue with this seed: run it again, show all of it, shrink it."""
    again = f"python -m pytest {quoted(nodeid)}"
    if only is not None:
        again += f" --simulation-only {','.join(map(str, sorted(only))) or 'none'}"
    lines = [
        f"run it again:     {again}",
        f"the whole trace:  {again} --simulation-trace trace.txt",
        f"a diagram:        {again} --simulation-diagram trace.svg",
    ]
    if shrinks:
        lines.append(f"fewer faults:     {again} --simulation-shrink")
    return lines


def quoted(text: str) -> str:
    """As one word for a shell; in double quotes where possible, which every system's shell knows."""
    return f'"{text}"' if not set('"$`\\!%\n') & set(text) else shlex.quote(text)
