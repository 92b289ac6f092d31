"""What a message costs in calls, messages and frames goes down, not up: `python -m tests.house.calls`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from . import calls
from .calls import PATHS, Cost, Counted, cost, limits, main, write


@pytest.mark.parametrize("path", PATHS)
def test_no_message_costs_more_than_it_did(path: str) -> None:
    """If one costs less, lower the figure: `python -m tests.house.calls --update`."""
    now, limit = cost(path), limits()[path]
    assert not now.higher(limit), f"{path}: python -m tests.house.calls --raise REASON, if there is one"


def test_each_path_has_a_figure_and_each_figure_a_path() -> None:
    assert limits().keys() == PATHS.keys()


def test_two_runs_count_the_same() -> None:
    run, _ = PATHS["W6, one tuple at a time through three bolts"]
    run(10)  # what is made once for a process
    first, second = run(10), run(10)
    assert (first.calls, first.messages) == (second.calls, second.messages)
    assert first.calls > 10 * 50


def test_frames_are_counted_between_workers_only() -> None:
    assert limits()["two workers, half of the tuples to the other"].frames > 0
    assert limits()["W3, a tuple through three bolts"].frames == 0


def test_functions_of_others_and_of_tests_do_not_count() -> None:
    with Counted() as counted:
        json.dumps([Path(__file__).name])
    assert counted.calls == 0


def test_figures_go_down_by_update_and_up_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "FIGURES", tmp_path / "calls.json")
    monkeypatch.setattr(calls, "PATHS", {"a": (None, 1)})
    monkeypatch.setattr(calls, "PYTHON", sys.version_info[:2])
    costs = iter([Cost(10, 2, 0), Cost(12, 1, 0), Cost(12, 1, 0)])
    monkeypatch.setattr(calls, "cost", lambda path: next(costs))
    assert main(["--update"]) == 0
    assert limits() == {"a": Cost(10, 2, 0)}
    assert main(["--update"]) == 1  # the lower one is written, the higher one is not
    assert limits() == {"a": Cost(10, 1, 0)}
    assert main(["--raise", "each tuple is checked"]) == 0
    assert limits() == {"a": Cost(12, 1, 0)}
    [raised] = json.loads(calls.FIGURES.read_text("utf-8"))["raised"]
    assert raised == {"path": "a", "what": ["calls 12, the limit is 10"], "why": "each tuple is checked"}
    write({"a": Cost(11, 1, 0)}, None)
    assert limits() == {"a": Cost(11, 1, 0)}


def test_only_one_python_writes_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(calls, "PYTHON", (2, 7))
    with pytest.raises(SystemExit):
        main(["--update"])
    assert "the figures are those of Python 2.7" in capsys.readouterr().err
