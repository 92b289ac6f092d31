"""How many examples a property is tried with that says so itself: fewer where all others have fewer.

`AIOSTORM_EXAMPLES=again` (see conftest.py) is for a second run of the same tests, with another Python: a quarter.
"""

from __future__ import annotations

import os
from typing import Final

LEAST: Final = 10


def examples(count: int) -> int:
    """`count`, or a quarter of it in a second run."""
    if os.environ.get("AIOSTORM_EXAMPLES") != "again":
        return count
    return min(count, max(LEAST, count // 4))
