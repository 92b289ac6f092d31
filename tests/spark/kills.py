"""Kills: a job of Spark and a topology as processes, killed again and again with SIGKILL. Is every row there once?

    python -m tests.spark.kills --job batch --kills 10 --seed 1 [--workers 2]
    python -m tests.spark.kills --job batch --kills 10 --seed 1 --workers 2 --spark 'local-cluster[4,1,1024]'

Input files ─▶ `aiostorm run tests.spark.kills_jobs:job` ─▶ Parquet. When as many files are there as a seeded choice
says, a seeded choice of the driver, Spark's JVM, a worker and (with --spark, where workers are in Spark's executors) an
executor is killed; a job that has ended is started again. At the end each row of the output is compared with the input.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as _pyarrow  # noqa: ICN001 - pyarrow has no types of its own
import pyarrow.dataset
import pyarrow.parquet

from .kills_jobs import CHUNK_ROWS, EXECUTORS

pa: Any = _pyarrow

ROOT = Path(__file__).parents[2]
EXECUTOR = "CoarseGrainedExecutorBackend"
START_S = 300.0
"""A job that shows no progress for so long hangs."""


@dataclass
class Kill:
    at_files: int
    victim: str
    pid: int = 0
    resumed_s: float = 0.0


@dataclass
class Outcome:
    kills: list[Kill]
    starts: int
    seconds: float
    rows: int
    lost: int
    doubled: int
    wrong: int
    orphans: int
    exit_code: int

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.wrong or self.orphans or self.exit_code)


def run(
    kind: str,
    folder: Path,
    *,
    victims: Sequence[str],
    seed: int,
    workers: int = 0,
    spark: str = "",
    files: int = 40,
    pause_s: float = 0.1,
    say: Any = print,
) -> Outcome:
    """Make the input, run the job to its end while these are killed, in any order, and look at what came out."""
    chance = random.Random(seed)
    rows = make_input(folder / "input", files, 3 * CHUNK_ROWS + 7)
    expected = files * 4 * 3 * 2  # chunks of each file, folders of each chunk, about two shares of each
    counts = sorted(chance.randrange(1, int(expected * 0.7)) for _ in victims)
    order = list(victims)
    chance.shuffle(order)
    planned = [Kill(count, victim) for count, victim in zip(counts, order, strict=True)]
    begun_s = time.monotonic()
    how = (kind, folder, workers, spark, pause_s)
    process, starts = start(*how), 1
    jvms: set[int] = set()
    try:
        for number, kill in enumerate(planned, 1):
            process, starts = wait_for(process, starts, folder, kill, how, jvms)
            time.sleep(chance.uniform(0, 0.3))
            until_s = time.monotonic() + START_S
            while not kill.pid and time.monotonic() < until_s and process.poll() is None:
                family = family_of(process.pid)  # one that was killed a moment ago may not be back
                kill.pid = chosen(chance, family, kill.victim, process.pid)
                jvms.update(pid for pid, line in family.items() if is_java(line))
                time.sleep(0.05)
            if not kill.pid:
                say(f"  {number}: no {kill.victim} to be found")
                continue
            before, at_s = written(folder), time.monotonic()
            os.kill(kill.pid, signal.SIGKILL)
            say(f"  {number}: kill -9 {kill.victim} ({kill.pid}) at {before} files, {at_s - begun_s:.0f} s")
            if kill.victim == "driver":
                process.wait(30)
                process, starts = start(*how), starts + 1
            process, starts = wait_for(process, starts, folder, Kill(before + 1, ""), how, jvms)
            kill.resumed_s = time.monotonic() - at_s
        while process.wait(600):
            say(f"  it ended with {process.returncode}: started again")
            if starts > len(victims) + 10:
                break
            process, starts = start(*how), starts + 1
        exit_code = process.returncode
    finally:
        if process.poll() is None:
            end(process)
    orphans = left_over(jvms)
    seconds = time.monotonic() - begun_s
    return Outcome(planned, starts, seconds, rows, *compare(folder, rows), orphans, exit_code)


def start(kind: str, folder: Path, workers: int, spark: str, pause_s: float) -> subprocess.Popen[bytes]:
    log = open(folder / "log", "ab")  # noqa: SIM115 - the process's
    spread = ["--workers", str(workers)] if workers else []
    if spark:
        settings = [word for key, value in EXECUTORS.items() for word in ("--spark-conf", f"{key}={value}")]
        spread = ["--spark", spark, "--slots", str(workers), *settings]
    command = [sys.executable, "-m", "aiostorm", "run", "-q", *spread, "--no-control"]
    with log:
        return subprocess.Popen(
            [*command, "tests.spark.kills_jobs:job", kind, str(folder), str(pause_s), "given" if spark else "own"],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that hangs, and its children."""
    family = family_of(process.pid)
    process.kill()
    process.wait()
    for pid in family:
        if pid != process.pid and alive(pid):
            os.kill(pid, signal.SIGKILL)


def wait_for(
    process: subprocess.Popen[bytes], starts: int, folder: Path, kill: Kill, again: Any, jvms: set[int]
) -> tuple[subprocess.Popen[bytes], int]:
    """Until so many files are there, or the job has come to its end. A job that died is started again."""
    seen, since_s = -1, time.monotonic()
    while (found := written(folder)) < kill.at_files:
        code = process.poll()
        if code == 0:
            return process, starts
        if code is not None:
            if starts > 60 or not (folder / "out").exists():
                raise AssertionError(f"the job ends with {code} again and again: see {folder / 'log'}")
            process, starts = start(*again), starts + 1
        if found > seen:
            seen, since_s = found, time.monotonic()
        if time.monotonic() - since_s > START_S:
            end(process)
            raise AssertionError(f"no progress for {START_S:.0f} s at {found} files: see {folder / 'log'}")
        time.sleep(0.05)
    return process, starts


# -- processes ---------------------------------------------------------------------------------------------------------


def family_of(pid: int) -> dict[int, str]:
    """The process and all its descendants, with their command lines."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, todo = {}, [pid]
    while todo:
        one = todo.pop()
        found[one] = command_line(one)
        todo += parents.get(one, [])
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def is_java(line: str) -> bool:
    return "org.apache.spark" in line


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def chosen(chance: random.Random, family: dict[int, str], victim: str, driver: int) -> int:
    if victim == "driver":
        return driver
    if victim == "executor":
        found = [pid for pid, line in family.items() if is_java(line) and EXECUTOR in line]
    elif victim == "jvm":
        found = [pid for pid, line in family.items() if is_java(line) and EXECUTOR not in line]
    elif any(EXECUTOR in line for line in family.values()):
        found = [pid for pid, line in family.items() if "aiostorm worker" in line]
    else:
        found = [pid for pid, line in family.items() if pid != driver and "aiostorm" in line and not is_java(line)]
    return chance.choice(sorted(found)) if found else 0


def left_over(jvms: set[int]) -> int:
    """JVMs without a parent: they end by themselves within seconds."""
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        left = [pid for pid in jvms if alive(pid) and is_java(command_line(pid))]
        if not left:
            return 0
        time.sleep(0.2)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(left)


# -- rows --------------------------------------------------------------------------------------------------------------


def make_input(path: Path, files: int, rows_each: int) -> int:
    path.mkdir(parents=True)
    for number in range(files):
        ids = range(number * rows_each, (number + 1) * rows_each)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "bucket": [f"b{i % 3}" for i in ids],
                "word": [f"word {i % 17}" for i in ids],
                "amount": [i * 0.25 for i in ids],
            }
        )
        pa.parquet.write_table(table, path / f"part-{number:05}.parquet")
    return files * rows_each


def written(folder: Path) -> int:
    """Files of the output."""
    return sum(1 for _ in (folder / "out").glob("bucket=*/*.parquet"))


def compare(folder: Path, rows: int) -> tuple[int, int, int]:
    """How many rows are lost, doubled, other than they should be."""
    table = pa.dataset.dataset(str(folder / "out"), partitioning="hive").to_table()
    counts = Counter(table.column("id").to_pylist())
    lost = sum(1 for number in range(rows) if number not in counts)
    doubled = sum(count - 1 for count in counts.values())
    wrong = sum(
        row != {"id": i, "bucket": f"b{i % 3}", "word": f"word {i % 17}", "amount": i * 0.25, "twice": i * 0.5}
        for row in table.to_pylist()
        for i in (row["id"],)
    )
    return lost, doubled, wrong


def show(outcome: Outcome, say: Any = print) -> None:
    say(f"{'at files':>8}  {'killed':8}  next file after")
    for kill in outcome.kills:
        say(f"{kill.at_files:8}  {kill.victim:8}  {kill.resumed_s:.1f} s" if kill.pid else f"{kill.at_files:8}  none")
    say(
        f"{outcome.rows:,} rows, {outcome.starts} starts, {outcome.seconds:.0f} s: lost {outcome.lost}, doubled "
        f"{outcome.doubled}, wrong {outcome.wrong}; JVMs left behind {outcome.orphans}; exit code {outcome.exit_code}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=["batch", "stream"], required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--spark", default="", metavar="MASTER", help="workers in the slots of this Spark's executors")
    parser.add_argument("--files", type=int, default=40, help="of the input, 3,007 rows each")
    parser.add_argument("--folder", help="where to work (a temporary folder)")
    asked = parser.parse_args()
    kinds = ["driver", "jvm", *(["worker"] if asked.workers else []), *(["executor"] if asked.spark else [])]
    with (
        tempfile.TemporaryDirectory(prefix="aiostorm-kills-")
        if not asked.folder
        else KeptFolder(asked.folder) as folder
    ):
        outcome = run(
            asked.job,
            Path(folder),
            victims=list(islice(cycle(kinds), asked.kills)),
            seed=asked.seed,
            workers=asked.workers,
            spark=asked.spark,
            files=asked.files,
        )
        show(outcome)
        if not outcome.good:
            print((Path(folder) / "log").read_text(errors="replace")[-4000:])
    return 0 if outcome.good else 1


class KeptFolder:
    """A folder of the user's."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> str:
        Path(self.path).mkdir(parents=True)
        return self.path

    def __exit__(self, *_: object) -> None:
        """It stays."""


if __name__ == "__main__":
    sys.exit(main())
