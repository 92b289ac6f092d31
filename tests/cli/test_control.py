"""`aiostorm update` and `aiostorm pressure`, and what `aiostorm run` does to be found by them."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiostorm.cluster import find

from .conftest import JOBS, Command, Process

Start = Callable[..., Process]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no unix sockets")

OFF = ("-c", "topology.backpressure.enable=false")


@pytest.mark.sockets
def test_a_run_of_another_process_is_asked_and_updated(
    aiostorm: Command, start: Start, runtime: Path, tmp_path: Path
) -> None:
    process = start("run", f"{JOBS}:never_acks_for_long", "-q")
    process.until_out("under way")

    text = aiostorm("pressure", "endless")
    assert text.code == 0
    assert text.out.startswith(f"endless (pid {find('endless').pid}) ACTIVE, its backpressure is NORMAL")
    status = aiostorm("pressure", "endless", "--json").json
    assert (status["topology"], status["enabled"], status["state"]) == ("endless", True, "NORMAL")

    settings = tmp_path / "storm.yaml"
    settings.write_text("topology:\n  max.spout.pending: 20\n  backpressure.check.interval: 250\n")
    outcome = aiostorm("update", "endless", "--config", str(settings), *OFF)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "topology.backpressure.enable: true → false",
        "topology.backpressure.check.interval: 1000.0 → 250.0",
    ]
    assert aiostorm("update", "endless", *OFF).out == "no changes: all settings already have these values\n"
    assert "topology.backpressure.enable is false" in aiostorm("pressure", "endless").out
    changed = aiostorm("update", f"endless@{status['pid']}", "-c", "backpressure_enable=true", "--json").json
    assert changed == {
        "topology": "endless",
        "pid": status["pid"],
        "changed": {"topology.backpressure.enable": {"before": False, "after": True}},
    }

    for typed, why in (
        ("topology.backpressure.enabl=1", "Error: topology.backpressure.enabl (-c): no such setting; did you mean "),
        ("backpressure_high_mark=2", "Error: backpressure_high_mark = 2 (-c): Input should be less than or equal to 1"),
        (
            "backpressure_low_mark=0.8",
            "Error: backpressure_low_mark = 0.8 (-c) must be less than 0.8, the value of backpressure_high_mark",
        ),
        ("topology.workers=9", "Error: workers cannot be changed while a topology runs; what can: "),
    ):
        outcome = aiostorm("update", "endless", "-c", typed)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith(why)
    outcome = aiostorm("update", "other", *OFF)
    assert outcome.code == 2
    assert (
        f"no topology 'other' of yours runs here with `aiostorm run`; running: endless (pid {status['pid']})"
        in outcome.err
    )

    process.send(signal.SIGINT)
    process.until_err("Stopping: ")
    process.send(signal.SIGINT)  # it ends now, and has to put its socket away all the same
    assert process.end().code == 130
    assert list(runtime.rglob("*")) == [runtime / "aiostorm"]


@pytest.mark.slow
@pytest.mark.sockets
def test_pressure_is_watched_until_the_end(aiostorm: Command, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiostorm.cli.control.WATCH_S", 0.3)
    process = start("run", f"{JOBS}:endless", "-q", "--timeout", "4")
    process.until_out("under way")
    watched = aiostorm("pressure", "endless", "--watch", "--json")
    documents = [json.loads(line) for line in watched.out.splitlines()]
    assert {document["topology"] for document in documents} == {"endless"}
    assert watched.code == 0
    topology = f"endless (pid {documents[0]['pid']})"
    assert watched.err in (
        f"{topology} has ended\n",
        f"{topology} ended before it answered\n",
    )  # between two looks, or in one
    assert process.end().code == 124


def test_a_run_leaves_no_files_in_the_control_folder(aiostorm: Command, runtime: Path) -> None:
    assert aiostorm("run", JOBS, "-q").code == 0
    assert list(runtime.rglob("*")) == [runtime / "aiostorm"]


def test_a_run_that_is_not_to_be_found(aiostorm: Command, runtime: Path) -> None:
    assert aiostorm("run", JOBS, "-q", "--no-control").code == 0
    assert not list(runtime.iterdir())


def test_a_folder_that_is_not_ours_alone_is_a_warning(aiostorm: Command, runtime: Path) -> None:
    (runtime / "aiostorm").mkdir()
    (runtime / "aiostorm").chmod(0o755)
    outcome = aiostorm("run", JOBS, "-q")
    assert outcome.code == 0
    [line] = outcome.err.splitlines()
    assert "WARNING aiostorm.cluster: `aiostorm update` and `aiostorm pressure` will not find this run: " in line
    assert line.endswith(f"others may access {runtime}/aiostorm: chmod 700 {runtime}/aiostorm")


def test_a_request_that_cannot_be_made_is_exit_code_2(aiostorm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, why in (
        (("update", "a"), "nothing to change: use -c KEY=VALUE or --config FILE"),
        (("update", "a", *OFF), "no topology 'a' of yours runs here with `aiostorm run`; none does"),
        (("pressure", "a"), "no topology 'a' of yours runs here"),
    ):
        outcome = aiostorm(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert why in outcome.err
    monkeypatch.setattr(sys, "platform", "win32")
    assert "this system's Python has no unix sockets" in aiostorm("update", "a", *OFF).err
    assert aiostorm("run", JOBS, "-q").err == "", "it runs without"
