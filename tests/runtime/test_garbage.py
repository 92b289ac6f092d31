"""The garbage collector does not look at what was made old, and frozen objects stay frozen."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from aiostorm.runtime import age_objects
from aiostorm.runtime.garbage import FEW


@pytest.fixture(autouse=True)
def _no_collection_meanwhile() -> Iterator[None]:
    gc.unfreeze()  # conftest.py freezes what modules of tests leave
    gc.collect()
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def is_young(found: object) -> bool:
    return any(known is found for known in gc.get_objects(generation=0))


def test_young_objects_become_old() -> None:
    made = [object()]
    assert is_young(made)
    age_objects()
    assert not is_young(made)
    assert gc.get_freeze_count() < FEW


def test_garbage_is_still_found() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    age_objects()
    del cycle
    assert gc.collect(0) == 0
    assert gc.collect() >= 1


def test_frozen_objects_stay_frozen() -> None:
    frozen = [object()]
    gc.freeze()
    assert gc.get_freeze_count() > FEW
    made = [object()]
    age_objects()
    # Not by their number: others that were frozen may die meanwhile.
    assert not any(known is frozen for known in gc.get_objects())
    assert is_young(made)
