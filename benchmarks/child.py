"""Child: one repetition of one row, in a fresh process. A spec on stdin, a record on stdout.

    limit, subject, limit, subject, limit     two rounds; a round is a subject and the limits around it

1. A short run of each goes first and does not count: imports, caches and the interpreter's specialising are paid there.
2. What one run left behind is collected before the next begins. The collector itself stays as Python has it.
3. Cells raise when their result is wrong; the child then fails, and says so.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
from importlib import import_module
from typing import Any

from .cells import Cell, Outcome

WARM_UP = 20
"""The run before the runs has 1/20 of their size."""


def main() -> None:
    """Read the spec, run, print the record as the last line."""
    spec = json.load(sys.stdin)
    record = measure(Cell(**spec["subject"]), Cell(**spec["against"]), spec["size"], spec["rounds"])
    print(json.dumps(record))


def measure(subject: Cell, against: Cell, size: int, rounds: int) -> dict[str, Any]:
    """All rounds of one repetition."""
    for cell in (against, subject):
        run(cell, max(100, size // WARM_UP))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    done = []
    before = run(against, size).as_dict()
    for _ in range(rounds):
        result = run(subject, size).as_dict()
        after = run(against, size).as_dict()
        done.append({"subject": result, "against": [before, after]})
        before = after
    return {"rounds": done, "python": platform.python_version(), "load": load}


def run(cell: Cell, size: int) -> Outcome:
    """One run of a cell."""
    function = getattr(import_module(cell.module), cell.function)
    gc.collect()
    outcome = function(size, **cell.options)
    assert isinstance(outcome, Outcome), f"{cell.module}.{cell.function} gave {outcome!r}, not an Outcome"
    return outcome


if __name__ == "__main__":
    main()
