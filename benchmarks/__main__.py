"""`python -m benchmarks`: run rows, write JSON and Markdown, print the tables. Exit code 1 if a result was wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import machine, report
from .cells import Row
from .harness import ChildError, findings, run
from .rows import all_rows

LOCAL = Path(__file__).parent / "results" / "local"


def main(arguments: Sequence[str] | None = None) -> int:
    """See `--help`."""
    given = _parser().parse_args(arguments)
    rows = _chosen(given.only)
    if given.list:
        print("\n".join(row.id for row in rows))
        return 0
    if not rows:
        print(f"no row matches {' or '.join(given.only)}; see --list", file=sys.stderr)
        return 2
    about = machine.describe()
    repetitions = 1 if given.quick else given.repetitions
    try:
        records = run(rows, repetitions, quick=given.quick, say=lambda line: print(line, file=sys.stderr, flush=True))
    except ChildError as error:
        print(error, file=sys.stderr)
        return 1
    found = list(findings(rows, records))
    markdown = report.as_markdown(about, found, repetitions)
    name = given.name or about["date"].replace(":", "").replace("+0000", "Z")
    paths = report.write(given.out, name, report.as_json(about, rows, found, records, repetitions), markdown)
    print(markdown)
    print("written: " + ", ".join(map(str, paths)), file=sys.stderr)
    return 0


def _chosen(only: Sequence[str]) -> list[Row]:
    return [row for row in all_rows() if not only or any(part in row.id for part in only)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure aiostorm against its limits.")
    parser.add_argument("only", nargs="*", help="parts of row ids: `w1`, `w1/classes`, `cost of acks`; default: all")
    parser.add_argument("-n", "--repetitions", type=int, default=5, help="of each row, interleaved (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one small repetition: does everything run and check?")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument("--out", type=Path, default=LOCAL, help="folder of the results (default: results/local)")
    parser.add_argument("--name", help="name of the result files (default: the date)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
