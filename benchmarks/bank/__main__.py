"""`python -m benchmarks.bank`: kill -9 of workers and of the whole program, exactly once; a verifier of its own.

Exit code 1 if a transfer was lost, came twice, or the sum of all balances is not 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARENT = "parent"


class Program:
    """The bank's program, started again whenever it was killed."""

    def __init__(self, folder: Path, count: int, rate: float, workers: int) -> None:
        self._folder = folder
        self._arguments = [str(folder), str(count), str(rate), str(workers)]
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        (self._folder / "pids.json").unlink(missing_ok=True)
        return subprocess.Popen([sys.executable, "-m", "benchmarks.bank.program", *self._arguments])

    def workers(self) -> list[int]:
        """The pids of its running workers."""
        try:
            found: list[int] = json.loads((self._folder / "pids.json").read_text())
        except FileNotFoundError:
            return []
        return [pid for pid in found if pid]

    def kill_parent(self) -> None:
        """Kill the program, and start it again; its workers end by themselves."""
        self.process.kill()
        self.process.wait()
        self.process = self._started()


def kill_some(program: Program, kills: int, gap_s: tuple[float, float], chance: random.Random) -> dict[str, int]:
    """Kill workers, and every fifth time the program. How often each was killed."""
    killed = {"worker": 0, PARENT: 0}
    while sum(killed.values()) < kills and program.process.poll() is None:
        time.sleep(chance.uniform(*gap_s))
        workers = program.workers()
        if chance.random() < 0.2:
            program.kill_parent()
            killed[PARENT] += 1
        elif workers:
            try:
                os.kill(chance.choice(workers), signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed["worker"] += 1
        print(f"kill {sum(killed.values())}/{kills}", file=sys.stderr, flush=True)
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bank", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2000.0, help="transfers a second")
    parser.add_argument("--gap", type=float, nargs=2, default=(1.0, 4.0), metavar=("LEAST", "MOST"), help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    # About as many as are emitted between the kills: the last kills are under load, too.
    count = int(given.rate * given.kills * sum(given.gap) / 2 * 0.9)
    with tempfile.TemporaryDirectory(prefix="aiostorm-bank-") as name:
        folder = Path(name)
        connection = sqlite3.connect(folder / "bank.db")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE legs (account, transfer, amount, balance, legs)")
        connection.commit()
        connection.close()
        began_s = time.monotonic()
        program = Program(folder, count, given.rate, given.workers)
        killed = kill_some(program, given.kills, tuple(given.gap), random.Random(given.seed))
        code = program.process.wait(timeout=600)
        took_s = time.monotonic() - began_s
        found = json.loads(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.bank.verify", name, str(count)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    print(
        json.dumps(
            {"transfers": count, "killed": killed, "seconds": round(took_s), "exit code": code, **found}, indent=1
        )
    )
    right = all(sink["lost"] == sink["twice"] == sink["wrong"] == sink["sum"] == 0 for sink in found.values())
    return 0 if right and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
