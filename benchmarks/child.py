"""Child: one repetition of one row or probe, in a fresh process. A spec on stdin, a record on stdout.

    limit, subject, limit, subject, limit     a row of two rounds; a round is a subject and the limits around it
    subject                                   a probe

1. A short run of each goes first and does not count: imports, caches and the interpreter's specialising are paid there.
   (A probe that measures the process does without.)
2. What one run left behind is collected before the next begins. The collector stays as Python has it, unless a cell
   says otherwise; then it is set just before that cell's runs, and set back just after.
3. Cells raise when their result is wrong; the child then fails, and says so.
4. The record is the last line of standard output, after a marker: what a subject prints is its own affair.
5. The standard library only: a peer's Python has nothing else.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .cells import Cell, Outcome

MARK = "benchmark record: "
WARM_UP = 20
"""The run before the runs has 1/20 of their size."""
HIGH = 50_000, 20, 100
COLLECTORS: dict[str, tuple[bool, tuple[int, int, int] | None]] = {
    "frozen": (True, None),
    "thresholds": (False, HIGH),
    "frozen, thresholds": (True, HIGH),
    "off": (False, (0, 0, 0)),
}
"""By name: whether what there is is frozen (gc.freeze), and the thresholds where they are not Python's own."""


def main() -> None:
    """Read the spec, run, print the record."""
    spec = json.load(sys.stdin)
    subject = Cell(**spec["subject"])
    if spec["against"] is None:
        record = probe(subject, spec["size"], warm=spec["warm"])
    else:
        sizes = spec["size"], spec["against_size"]
        record = measure(subject, Cell(**spec["against"]), *sizes, spec["rounds"])
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    print(f"\n{MARK}{json.dumps({**record, 'python': platform.python_version(), 'load': load})}")


def measure(subject: Cell, against: Cell, size: int, against_size: int, rounds: int) -> dict[str, Any]:
    """All rounds of one repetition of a row."""
    run(against, warm_up(against_size))
    run(subject, warm_up(size))
    done = []
    before = run(against, against_size).as_dict()
    for _ in range(rounds):
        result = run(subject, size).as_dict()
        after = run(against, against_size).as_dict()
        done.append({"subject": result, "against": [before, after]})
        before = after
    return {"rounds": done}


def probe(subject: Cell, size: int, *, warm: bool) -> dict[str, Any]:
    """One repetition of a probe."""
    if warm:
        run(subject, warm_up(size))
    return {"probed": run(subject, size).as_dict()}


def warm_up(size: int) -> int:
    """How much of it a run before the runs has."""
    return min(size, max(100, size // WARM_UP))


def run(cell: Cell, size: int) -> Outcome:
    """One run of a cell."""
    function = getattr(import_module(cell.module), cell.function)
    gc.collect()
    with collecting(cell.collector):
        outcome = function(size, **cell.options)
    assert isinstance(outcome, Outcome), f"{cell.module}.{cell.function} gave {outcome!r}, not an Outcome"
    return outcome


@contextmanager
def collecting(name: str) -> Iterator[None]:
    """Set the garbage collector for a run."""
    if name == "python":
        yield
        return
    freeze, thresholds = COLLECTORS[name]
    before = gc.get_threshold()
    if freeze:
        gc.freeze()
    if thresholds is not None:
        gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


if __name__ == "__main__":
    main()
