"""Children: one repetition of one row or probe, in a process and a session of its own that ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .cells import Item, Row
from .child import MARK

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 180.0
"""A child that takes longer is killed, and its row has failed."""
QUICK = 5
"""A quick run has one round of 1/5 of the size."""


class ChildError(Exception):
    """A child failed, or its result was wrong. The text is the end of what it said."""


def run_child(item: Item, python: Path, *, quick: bool = False) -> dict[str, Any]:
    """The record of one repetition. ChildError if there is none.

    Whatever the child started is killed when it ends, when its time is up, and when we are interrupted.
    """
    process = subprocess.Popen(
        [str(python), "-m", "benchmarks.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(json.dumps(_spec(item, quick)), timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"not done after {LIMIT_S:g} s") from error
    finally:
        _end(process)
    if process.returncode:
        raise ChildError(f"the child ended with {process.returncode}:\n{stderr[-2000:].strip()}")
    for line in reversed(stdout.splitlines()):
        if line.startswith(MARK):
            return json.loads(line.removeprefix(MARK))  # type: ignore[no-any-return]
    raise ChildError(f"the child wrote no record:\n{stdout[-1000:]}\n{stderr[-1000:]}")


def _end(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.poll()  # it has ended, and left nothing behind
    else:
        process.kill()
    process.wait()


def _spec(item: Item, quick: bool) -> dict[str, Any]:
    parts = QUICK if quick else 1
    spec = {"subject": asdict(item.subject), "size": item.size // parts, "against": None}
    if isinstance(item, Row):
        return {
            **spec,
            "against": asdict(item.against),
            "against_size": (item.against_size or item.size) // parts,
            "rounds": 1 if quick else item.rounds,
        }
    return {**spec, "warm": item.warm}
