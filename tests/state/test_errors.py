"""Errors of state say where they are from, and whether a restart can help."""

from __future__ import annotations

import pytest

from aiostorm.state import DamagedError, ForeignError, OwnedError, SaveError, StateError, UnmarkedError, UnsavableError


@pytest.mark.parametrize("kind", [StateError, UnsavableError, UnmarkedError, DamagedError, ForeignError, OwnedError])
def test_a_restart_does_not_help(kind: type[StateError]) -> None:
    assert issubclass(kind, StateError)
    assert kind.final


def test_a_snapshot_that_was_not_saved_may_be_saved_the_next_time() -> None:
    error = SaveError("the disk is full")
    assert (error.final, error.undecided, str(error)) == (False, False, "the disk is full")
    assert SaveError("I/O error", undecided=True).undecided


def test_an_error_names_its_place() -> None:
    error = UnsavableError("count", 3, "key", [1], "why")
    assert (error.component, error.task, error.key, error.culprit, error.kind) == ("count", 3, "key", [1], list)
    assert str(error) == "component 'count', task 3: the state of key 'key' cannot be saved (builtins.list): why"
    damaged = DamagedError("m-7", "it is missing")
    assert (damaged.name, str(damaged)) == ("m-7", "m-7: it is missing")
