"""`python -m benchmarks.backpressure`: run the comparison; print the tables, write the record and the plots.

    python -m benchmarks.backpressure                                    all: 20 runs of two minutes
    python -m benchmarks.backpressure --seconds 45 --runs slow --ways a,c
    python -m benchmarks.backpressure --virtual --seconds 60 --json RUN.json --plots docs/images \\
                                      --page docs/backpressure.md        some minutes: the page and its plots
    python -m benchmarks.backpressure --again RUN.json --plots FOLDER    measure nothing: of a run that was saved

Exit codes: 0; 1 if a run failed or its result was wrong (the rest was measured all the same); 130 if interrupted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .. import machine
from ..children import ROOT
from .run import END_S, MARK, VIRTUAL
from .slowness import KINDS
from .table import into_page, markdown
from .ways import WAYS

SECONDS: Final = 120.0
LEAST_S: Final = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.again:
        saved = json.loads(given.again.read_text(encoding="utf-8"))
        about, records, failed = saved["machine"], saved["records"], saved["failed"]
        interrupted = False
    else:
        about = machine.describe()
        records, failed, interrupted = run_all(given.runs, given.ways, given.seconds, virtual=given.virtual)
        if given.json:
            given.json.write_text(as_json(about, records, failed), encoding="utf-8")
    text = markdown(about, records, failed)
    print(text)
    if given.page:
        into_page(given.page, text)
    if given.plots:
        _plots(records, given.plots)
    return 130 if interrupted else 1 if failed else 0


def run_all(
    runs: Sequence[str], ways: Sequence[str], seconds: float, *, virtual: bool = False
) -> tuple[list[dict[str, Any]], dict[str, str], bool]:
    """The records, what failed with its reason, and whether it was interrupted."""
    records: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    try:
        for slowness in runs:
            for way in ways:
                try:
                    records.append(run_one(slowness, way, seconds, virtual=virtual))
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    failed[f"{slowness}, {way}"] = str(error)
                _say(f"{slowness}, {way}: {'FAILED' if f'{slowness}, {way}' in failed else 'done'}")
    except KeyboardInterrupt:
        return records, failed, True
    return records, failed, False


def run_one(slowness: str, way: str, seconds: float, *, virtual: bool = False) -> dict[str, Any]:
    """One run in a process of its own. RuntimeError with the end of what it said, if it failed."""
    command = [sys.executable, "-m", "benchmarks.backpressure.run", slowness, way, f"{seconds:g}"]
    command += [VIRTUAL] if virtual else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + END_S + 60, check=False)
    for line in reversed(done.stdout.splitlines()):
        if not done.returncode and line.startswith(MARK):
            return json.loads(line.removeprefix(MARK))  # type: ignore[no-any-return]
    raise RuntimeError(f"it ended with {done.returncode}: {done.stderr[-2000:].strip()}")


def as_json(about: dict[str, Any], records: Sequence[dict[str, Any]], failed: dict[str, str]) -> str:
    """A record a line."""
    lines = ",\n".join(json.dumps(record) for record in records)
    return f'{{"machine": {json.dumps(about)},\n"failed": {json.dumps(failed)},\n"records": [\n{lines}\n]}}\n'


def _plots(records: Sequence[dict[str, Any]], folder: Path) -> None:
    try:
        from .plots import draw
    except ImportError as error:
        _say(f"no plots: {error}; they need the dependency group `bench`: uv sync --group bench")
        return
    _say("written: " + ", ".join(map(str, draw(records, folder))))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backpressure", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="of each run (default: 120)")
    parser.add_argument("--runs", type=_runs, default=list(KINDS), help=f"of {','.join(KINDS)} (default: all)")
    ways = ", ".join(f"{way.letter} or {name}: {way.title}" for name, way in WAYS.items())
    parser.add_argument("--ways", type=_ways, default=list(WAYS), help=f"{ways} (default: all)")
    parser.add_argument("--virtual", action="store_true", help="in virtual time: quick, and no machine is to be seen")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the record of all runs goes")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where the plots go")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page whose tables are replaced")
    parser.add_argument("--again", type=_file, metavar="JSON", help="measure nothing: of a run that was saved")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not LEAST_S <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"a run takes at least {LEAST_S:g} s, not {text}")
    return seconds


def _file(text: str) -> Path:
    if not (path := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def _runs(text: str) -> list[str]:
    return _chosen(text, {name: name for name in KINDS})


def _ways(text: str) -> list[str]:
    names = {name: name for name in WAYS}
    return _chosen(text, names | {way.letter: name for name, way in WAYS.items()})


def _chosen(text: str, names: dict[str, str]) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if part not in names:
            raise argparse.ArgumentTypeError(f"{part!r} is none of {', '.join(names)}")
    return [names[part] for part in parts]


if __name__ == "__main__":
    sys.exit(main())
