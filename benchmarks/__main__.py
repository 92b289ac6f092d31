"""`python -m benchmarks`: run rows, write JSON, Markdown and plots, print the tables.

Exit codes: 0; 1 if something failed (the rest was measured all the same); 2 if nothing matches; 130 if interrupted
(what was complete is written). A peer that cannot be installed is in the tables with its reason, and is no failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import machine
from .cells import Item, Row
from .harness import run
from .report import Report
from .rows import all_items

LOCAL = Path(__file__).parent / "results" / "local"


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    items = chosen(all_items(), given.only, peers=given.peers)
    if given.list:
        print("\n".join(item.id for item in items))
        return 0
    if not items:
        print(f"nothing matches {' or '.join(given.only)}; see --list", file=sys.stderr)
        return 2
    report = Report.read(given.again, items) if given.again else _measured(items, given)
    name = given.name or (given.again.stem if given.again else report.machine["date"].replace(":", "")[:17])
    paths: list[Path] = [] if given.again else list(report.write(given.out, name))
    if given.plots:
        paths += _plots(report, given.images / name if given.images else given.out / name)
    if given.page:
        report.into_page(given.page)
        paths.append(given.page)
    print(report.markdown())
    _say("written: " + ", ".join(map(str, paths)))
    for row, reason in report.run.failed.items():
        _say(f"FAILED {row}: {reason}")
    if report.run.interrupted:
        return 130
    return 1 if report.run.failed else 0


def _measured(items: Sequence[Item], given: argparse.Namespace) -> Report:
    about = machine.describe()
    repetitions = 1 if given.quick else given.repetitions
    return Report(about, items, run(items, repetitions, quick=given.quick, say=_say), repetitions)


def chosen(items: Sequence[Item], only: Sequence[str], *, peers: bool) -> list[Item]:
    """What was asked for, and with peers those of our rows that they are compared with."""
    picked = [
        item
        for item in items
        if (peers or not item.subject.env) and (not only or any(part in item.id for part in only))
    ]
    ids = {item.id for item in picked} | {item.ours for item in picked if isinstance(item, Row)}
    return [item for item in items if item.id in ids]


def _plots(report: Report, stem: Path) -> list[Path]:
    try:
        from .plots import draw
    except ImportError as error:
        _say(f"no plots: {error}; they need the dependency group `bench`: uv sync --group bench")
        return []
    stem.parent.mkdir(parents=True, exist_ok=True)
    return draw(report, stem)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure aiostorm, its limits and peers.")
    parser.add_argument("only", nargs="*", help="parts of row ids: `w1`, `w1/classes`, `acks against`; default: all")
    parser.add_argument("-n", "--repetitions", type=int, default=5, help="of each row, interleaved (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one small repetition: does everything run and check?")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument(
        "--peers", action=argparse.BooleanOptionalAction, default=True, help="other systems too, installed if need be"
    )
    parser.add_argument("--plots", action=argparse.BooleanOptionalAction, default=True, help="draw the plots")
    parser.add_argument("--page", type=Path, help="a page whose tables are replaced, as docs/notes/performance.md")
    parser.add_argument("--images", type=Path, help="folder of the plots (default: as --out)")
    parser.add_argument(
        "--again", type=Path, metavar="JSON", help="measure nothing: tables and plots of an earlier run"
    )
    parser.add_argument("--out", type=Path, default=LOCAL, help="folder of the results (default: results/local)")
    parser.add_argument("--name", help="name of the result files (default: the date)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
