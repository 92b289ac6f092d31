"""@scenario: what a test here says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from .sources import SOURCES

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Scenario:
    """`name` says what happens; `source` is "file#test", with a file of SOURCES.

    `departs` says in what this project behaves otherwise, `note` in what the test is written otherwise.
    """

    name: str
    source: str
    departs: str
    note: str

    @property
    def file(self) -> str:
        """Repository and path."""
        return SOURCES[self.source.partition("#")[0]]


def scenario(name: str, source: str, departs: str = "", *, note: str = "") -> Callable[[F], F]:
    """Mark a test: `@scenario("A basic topology", "TopologyIntegrationTest#testBasicTopology")`."""

    def mark(test: F) -> F:
        test.scenario = Scenario(name, source, departs, note)  # type: ignore[attr-defined]
        return test

    return mark
