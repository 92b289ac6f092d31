"""What every sink promises to the builder: its three methods, and that it runs only where snapshots are taken."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import Bolt
from aiostorm.state import Commits, FileSink, MapSink, Sink, UpsertSink, WriteAheadSink

METHODS = ("pre_commit", "commit", "abort")


def nothing(sink: Any, argument: Any) -> None:
    """A method of a sink."""


def sink_with(*names: str, base: type = Sink) -> Any:
    return type("Mine", (base,), dict.fromkeys(names, nothing))()


def test_a_sink_has_all_three_methods() -> None:
    assert sink_with(*METHODS).problems({}) == []
    assert sink_with("commit").problems({}) == [
        "Mine defines no pre_commit, no abort: a Sink needs pre_commit, commit, abort"
    ]
    assert sink_with().problems({}) == [
        "Mine defines no pre_commit, no commit, no abort: a Sink needs pre_commit, commit, abort"
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_missing_names_itself(method: str) -> None:
    sink = sink_with(*(name for name in METHODS if name != method))
    with pytest.raises(NotImplementedError, match=f"Mine must define {method}"):
        getattr(sink, method)(1)


def test_a_sink_runs_only_with_exactly_once() -> None:
    sink = sink_with(*METHODS)
    assert sink.refused("exactly-once") == []
    for guarantee in ("at-least-once", "at-most-once"):
        (problem,) = sink.refused(guarantee)
        assert problem.startswith("Mine is a Sink: without snapshots it would never write its rows. So use Config(")

    class Both(Commits, Bolt):
        """A bolt that also runs without snapshots."""

    assert Both().refused("at-least-once") == []


def test_nothing_is_done_after_a_restore_unless_a_sink_says_so() -> None:
    assert sink_with(*METHODS).restored(3) is None
    assert sink_with(*METHODS).restored(None) is None


@pytest.mark.parametrize("kind", [FileSink, MapSink, UpsertSink, WriteAheadSink])
def test_the_sinks_that_call_other_systems_run_in_threads_of_their_own(kind: type[Sink]) -> None:
    assert kind.blocking
