"""What is said of records: ratios within a repetition, medians over them, ours against a peer, targets."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.cells import Cell, Figure, Probe, Row
from benchmarks.findings import compared, findings, probed, ratio_of
from benchmarks.harness import Run
from benchmarks.report import BEGIN, END, Report
from benchmarks.w9 import Sample, figures, rates

CELL = Cell("module", "function")
LABELS = {"what": "rate", "style": "s", "guarantee": "g", "tree": "1", "loop": "l", "peer": "Peer 1"}
OURS = Row("w1", "ours", CELL, CELL, "limit", "words", 10, targets={"rate": 0.5}, labels=LABELS)
PEER = Row("w1", "peer", CELL, CELL, "limit", "words", 10, labels=LABELS, ours="w1/ours", ours_targets={"rate": 3.0})
MACHINE = {
    "date": "2026-01-01T00:00:00+00:00",
    "cores": 2,
    "processor": "p",
    "memory_gb": 1,
    "system": "s",
    "python": "3",
    "packages": {"uvloop": "1"},
    "commit": "c",
    "changed_files": 0,
}


def outcome(rate: float, **more: Any) -> dict[str, Any]:
    return {"units": rate, "wall_s": 1.0, "cpu_s": 2.0, "quantiles_s": {}, "figures": {}, **more}


def record(*rounds: tuple[float, float, float]) -> dict[str, Any]:
    """Rounds of (limit before, subject, limit after), in units a second."""
    return {"rounds": [{"subject": outcome(b), "against": [outcome(a), outcome(c)]} for a, b, c in rounds]}


def test_a_round_is_held_against_the_limits_around_it():
    assert ratio_of(record((10, 5, 30)), "rate") == 0.25


def test_a_repetition_is_the_median_of_its_rounds_and_a_row_that_of_its_repetitions():
    records = [record((10, 1, 10), (10, 9, 10), (10, 4, 10)), record((10, 6, 10)), record((10, 7, 10))]
    (found,) = findings(OURS, records)
    assert (found.ratio.median, found.ratio.least, found.ratio.most) == (0.6, 0.4, 0.7)
    assert found.met
    assert found.rounds == 5


@pytest.mark.parametrize(("after", "disturbed"), [(12, 0), (13, 1)])
def test_a_round_with_different_limits_is_counted(after: float, disturbed: int):
    (found,) = findings(OURS, [record((10, 5, after))])
    assert found.disturbed == disturbed


def test_latencies_are_held_against_the_mean_and_less_is_better():
    row = Row("w6", "l", CELL, CELL, "chain", "tuples", 1, metrics=("p50",), targets={"p50": 1.5})
    sides = [outcome(1, quantiles_s={"p50": p50}) for p50 in (0.002, 0.001, 0.003)]
    records = [{"rounds": [{"subject": sides[0], "against": [sides[1], sides[2]]}]}]
    (found,) = findings(row, records)
    assert found.ratio.median == 1.0
    assert found.met


def test_ours_against_a_peer_is_a_ratio_of_ratios_repetition_by_repetition():
    ours = [record((10, 4, 10)), record((100, 90, 100)), record((1, 1, 1))]
    peers = [record((20, 2, 20)), record((10, 2, 10))]
    (found,) = compared(PEER, peers, ours)
    assert (found.times.least, found.times.most) == (4.0, 4.5)
    assert found.met


def test_a_probe_is_within_its_bounds_or_not():
    probe = Probe("memory", "m", CELL, 1, (Figure("peak", "MB", at_most=150.0), Figure("rate", "events/s")))
    records = [{"probed": outcome(7, figures={"peak": peak})} for peak in (100.0, 200.0, 160.0)]
    peak, rate = probed(probe, records)
    assert (peak.value.median, peak.met) == (160.0, False)
    assert (rate.value.median, rate.met) == (7, None)


def test_failed_and_missing_runs_are_in_the_tables_with_their_reason():
    run = Run({"w1/ours": [record((10, 6, 10))]}, {"w1/bad": "wrong\nresult"}, {"w1/peer": "no wheel | here"})
    markdown = Report(MACHINE, [OURS, PEER], run, 1).markdown()
    assert "| w1/bad | wrong result |" in markdown
    assert "| w1/peer | no wheel \\| here |" in markdown
    assert "| **0.600** |" in markdown


def test_a_peer_on_another_python_says_so():
    records = {"w1/ours": [record((8, 4, 8))], "w1/peer": [{**record((8, 1, 8)), "python": "4.0.1"}]}
    markdown = Report(MACHINE, [OURS, PEER], Run(records), 1).markdown()
    assert "| Peer 1 (Python 4.0.1) |" in markdown
    assert "| **4.00** | 4.00 – 4.00 | ≥ 3 met |" in markdown


def test_a_report_is_read_as_it_was_written(tmp_path):
    run = Run({"w1/ours": [record((10, 6, 10))], "w1/peer": [record((10, 1, 10))]}, {}, {"x": "y"}, interrupted=True)
    report = Report(MACHINE, [OURS, PEER], run, 3)
    path, _ = report.write(tmp_path, "r")
    assert Report.read(path, [OURS, PEER]) == report


def test_tables_are_put_into_a_page_and_replaced_there(tmp_path):
    report = Report(MACHINE, [OURS], Run({"w1/ours": [record((10, 6, 10))]}), 1)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    report.into_page(page)
    report.into_page(page)
    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\n{report.markdown()}\n{END}\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="which are not there"):
        report.into_page(page)


def test_a_steady_run_is_judged_by_its_last_third():
    done = [50 * min(at, 72) + 25 * max(0, at - 72) for at in range(121)]
    samples = [Sample(at / 4, done[at], 40.0 + at / 240, at % 100, 7) for at in range(1, 121)]
    assert [rate for _, rate in rates(samples)][::28] == [200.0, 100.0]
    seen = figures(samples, 1_000, 100.0)
    assert seen["rate"] == pytest.approx(1.0)
    assert seen["rate deviation"] == pytest.approx(0.0)
    assert seen["rss growth"] == pytest.approx(40 / 240, rel=0.02)
    assert seen["mailbox fill most"] == 0.099
