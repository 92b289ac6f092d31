"""How a bug is planted: one attribute is something else for a while. Only tests call this."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

SEEDS = 50
"""So many seeds must be enough to find one."""

Plant = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """For the length of the block, `owner.name` is something else."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
