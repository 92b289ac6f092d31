"""The order for a run of tests, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

FAILED: Final = 1
"""pytest's exit code when a test has failed."""
BROKEN: Final = 99
"""How a child exits that fails itself: that says nothing about the mutant."""
NOT_SWAPPED: Final = 98
"""How a child of a collected process exits that cannot put the code in place: the mutant needs a fresh one."""


@dataclass(frozen=True, slots=True)
class Order:
    """Run these tests with this mutant; without one, all tests, and say which call which functions (`survey`).

    `function` names the function that differs. `limit_s`: seconds of CPU, so that a busy machine makes no difference.
    """

    file: str
    source: str = ""
    function: str = ""
    chosen: Sequence[str] = ()
    limit_s: float = 900.0


@dataclass(frozen=True, slots=True)
class Answer:
    """How the tests ended: pytest's exit code, None if they took more than `limit_s`."""

    code: int | None
    output: str
    survey: dict[str, Any] = field(default_factory=dict)
