"""Which processes a supervisor names as those that do not stay alive."""

from __future__ import annotations

from aiostorm.cluster.nimbus import FailedProcess
from aiostorm.cluster.supervisor.failures import KEPT_S, MOST, Failures
from aiostorm.cluster.supervisor.slots import Key
from aiostorm.cluster.supervisor.wanted import Assigned

KEY = Key("words", "worker-1")
HERE = {"words": Assigned(1, frozenset({"worker-1"}), 5.0)}
NAMED = (FailedProcess("words", "worker-1", 1, 5.0, "why"),)


def failed() -> Failures:
    failures = Failures()
    failures.see(HERE, 0.0)
    failures.failing(KEY, "why")
    return failures


def test_it_is_named_until_it_stays_alive() -> None:
    failures = failed()
    assert failures.named(10 * KEPT_S) == NAMED
    failures.recovered(KEY)
    assert failures.named(0.0) == ()


def test_what_was_moved_away_is_named_for_some_time() -> None:
    failures = failed()
    failures.see({}, 10.0)
    failures.see({"words": Assigned(1, frozenset({"parent"}), 5.0)}, 20.0)
    assert failures.named(10.0 + KEPT_S - 0.1) == NAMED
    assert failures.named(10.0 + KEPT_S) == ()


def test_what_came_back_is_named_as_long_as_it_fails() -> None:
    failures = failed()
    failures.see({}, 10.0)
    failures.see(HERE, 20.0)
    assert failures.named(10.0 + 2 * KEPT_S) == NAMED


def test_another_generation_or_submission_has_not_failed() -> None:
    for other in (Assigned(2, frozenset({"worker-1"}), 5.0), Assigned(1, frozenset({"worker-1"}), 6.0)):
        failures = failed()
        failures.see({"words": other}, 1.0)
        assert failures.named(1.0) == ()


def test_what_is_not_assigned_is_not_named() -> None:
    failures = Failures()
    failures.failing(KEY, "why")
    assert failures.named(0.0) == ()


def test_only_the_latest_are_named() -> None:
    failures = Failures()
    names = [f"worker-{index}" for index in range(MOST + 5)]
    failures.see({"words": Assigned(1, frozenset(names))}, 0.0)
    for name in names:
        failures.failing(Key("words", name), "x" * 1000)
    named = failures.named(0.0)
    assert [each.process for each in named] == names[5:]
    assert max(len(each.why) for each in named) == 200
