"""The verifier: a process of its own that knows only the files. `python -m benchmarks.kills.verify FOLDER COUNT`

It reads what was written, what was acked, and the kills (kills.json: when, which worker; which
processes were whose), and prints JSON:

* lost: numbers that were acked and are in no line; never acked; lines that are wrong.
* duplicates: lines beyond the first of a number (at least once allows them; how many is worth knowing).
* recovery: for each kill the seconds until the worker's next process has written a line (what the dead one did goes
  on), and the longest silence of the whole output within 3 s after it.
"""

from __future__ import annotations

import itertools
import json
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from pathlib import Path
from typing import Any

WITHIN_S = 3.0


def verify(folder: Path, count: int) -> dict[str, Any]:
    """What the files say."""
    times: list[float] = []
    first_of: dict[str, float] = {}
    seen: Counter[int] = Counter()
    wrong = 0
    for path in sorted(folder.glob("written-*.log")):
        for line in path.read_text().splitlines():
            try:
                n, square, pid, at = line.split()
                number, at_s = int(n), float(at)
            except ValueError:
                wrong += 1
                continue
            wrong += int(square) != number**2
            seen[number] += 1
            times.append(at_s)
            first_of[pid] = min(at_s, first_of.get(pid, at_s))
    times.sort()
    acked: set[int] = set()
    for path in folder.glob("acked-*.log"):
        acked |= set(map(int, path.read_text().split()))
    known = json.loads((folder / "kills.json").read_text())
    kills, pids = known["kills"], known["pids"]
    return {
        "numbers": count,
        "lost": sum(n not in seen for n in range(count)),
        "never_acked": count - len(acked),
        "acked_and_lost": len(acked - seen.keys()),
        "wrong_lines": wrong,
        "duplicates": sum(seen.values()) - len(seen),
        "kills": [
            {**kill, "resumed_s": _resumed(kill, first_of, pids), "silence_s": _silence(kill["at_s"], times)}
            for kill in kills
        ],
    }


def _resumed(kill: dict[str, Any], first_of: dict[str, float], pids: dict[str, str]) -> float | None:
    later = [at_s for pid, at_s in first_of.items() if at_s > kill["at_s"] and pids.get(pid) == kill["worker"]]
    return min(later) - kill["at_s"] if later else None


def _silence(at_s: float, times: list[float]) -> float:
    within = times[bisect_left(times, at_s) : bisect_right(times, at_s + WITHIN_S)]
    stops = [at_s, *within]
    return max((later - sooner for sooner, later in itertools.pairwise(stops)), default=WITHIN_S)


if __name__ == "__main__":
    print(json.dumps(verify(Path(sys.argv[1]), int(sys.argv[2]))))
