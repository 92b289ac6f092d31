"""`aiostorm run --report FILE`."""

from __future__ import annotations

from pathlib import Path

from .conftest import JOBS, Command


def test_a_run_writes_its_report(aiostorm: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    assert aiostorm("run", JOBS, "-q", "--report", str(path)).code == 0
    html = path.read_text("utf-8")
    assert "sums: report of a run" in html
    assert "<dd>KILLED</dd>" in html


def test_a_report_that_cannot_be_written_is_refused_before_the_run(aiostorm: Command, tmp_path: Path) -> None:
    outcome = aiostorm("run", JOBS, "--report", str(tmp_path / "no" / "run.html"))
    assert outcome.code == 2
    assert "no report: there is no folder" in " ".join(outcome.err.split())
    assert "finished" not in outcome.out
