"""How a bug is planted: one attribute is something else for a while. Only tests call this."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

SEEDS = 50
"""So many seeds must be enough to find one."""

Plant = Callable[[], contextlib.AbstractContextManager[Any]]


class PlantedResult(Protocol):
    """What a run of a seed comes to."""

    @property
    def problems(self) -> Sequence[str]:
        """The promises that were broken."""
        ...


ResultT = TypeVar("ResultT", bound=PlantedResult)


def first_that_finds(run: Callable[[int], ResultT], planted: Plant, first: int, seeds: int) -> ResultT | None:
    """The first seed that finds it. `first` is looked at before all others: the one that found it the last time."""
    for seed in dict.fromkeys((first, *range(seeds))):
        with planted():
            result = run(seed)
        if result.problems:
            return result
    return None


@functools.cache
def has_no_problem(run: Callable[[int], PlantedResult], seed: int) -> bool:
    """Whether the seed keeps all promises without a planted bug: one run for all bugs that this seed finds."""
    return not run(seed).problems


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """For the length of the block, `owner.name` is something else."""
    missing = object()
    original = getattr(owner, name, missing)
    if original is missing and not isinstance(owner, type):
        raise AttributeError(f"{owner!r} has no {name}: the bug would not be planted")
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is missing:  # an attribute of instances, which a property hides
            delattr(owner, name)
        else:
            setattr(owner, name, original)
