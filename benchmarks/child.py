"""Child: one repetition of one row, in a fresh process: limit, subject, limit. A spec on stdin, a record on stdout.

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
    record = measure(Cell(**spec["subject"]), Cell(**spec["against"]), spec["size"])
    print(json.dumps(record))


def measure(subject: Cell, against: Cell, size: int) -> dict[str, Any]:
    """Limit, subject, limit."""
    for cell in (against, subject):
        run(cell, max(100, size // WARM_UP))
    load_before = os.getloadavg()[0]
    before, result, after = (run(cell, size) for cell in (against, subject, against))
    return {
        "subject": result.as_dict(),
        "against": [before.as_dict(), after.as_dict()],
        "python": platform.python_version(),
        "load": load_before,
    }


def run(cell: Cell, size: int) -> Outcome:
    """One run of a cell."""
    function = getattr(import_module(cell.module), cell.function)
    gc.collect()
    outcome = function(size, **cell.options)
    assert isinstance(outcome, Outcome), f"{cell.module}.{cell.function} gave {outcome!r}, not an Outcome"
    return outcome


if __name__ == "__main__":
    main()
