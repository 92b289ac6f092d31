"""The database that sinks write to, outside of every process, as a server is; it checks what it is given.

1. No row is committed more often than the plain fold of the sources has it, at any time.
2. Snapshot n is committed only when its manifest was durable.
3. When the first rows of a later snapshot come, all sinks together have exactly the rows before the positions that the
   spouts had in the snapshot before it. So a cut is consistent, and each one is committed whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiostorm.testing.simulation import World

from .fold import Facet, Fold


class Database:
    """See the module. `durable`: the numbers of all manifests that were ever durable."""

    def __init__(self, world: World, fold: Fold, durable: set[int]) -> None:
        self.world = world
        self.fold = fold
        self.durable = durable
        self.rows: dict[str, Counter[Facet]] = defaultdict(Counter)
        """Sink → what it has committed."""
        self.positions: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
        """Snapshot → spout task → its position."""
        self.is_down = False
        self.at_commit: Callable[[str], None] = lambda when: None
        self.commits = 0
        self._expected = fold.expected()
        self._last: dict[tuple[str, int], int] = {}
        self._newest = 0

    def __deepcopy__(self, memo: object) -> Database:
        return self

    def frozen(self, number: int, spout: str, index: int, position: int) -> None:
        """A spout task has taken its position for a snapshot."""
        if self.is_reached():
            self.positions[number][spout, index] = position

    def write(self, sink: str, task: int, number: int, rows: Sequence[Any]) -> None:
        """One transaction; nothing if the task has committed this number."""
        if not self.is_reached():
            return
        if self.is_down:
            raise ConnectionError("the database does not answer")
        self.at_commit("before")
        if self._last.get((sink, task), 0) < number and self.is_reached():
            self._check(number)
            self._last[sink, task] = number
            self._add(sink, number, rows)
            self.commits += 1
        self.at_commit("after")

    def is_reached(self) -> bool:
        """Has the process that calls not been killed?"""
        return self.world.current.alive

    def problems_at_the_end(self) -> list[str]:
        """What differs from the fold of the whole sources."""
        found = []
        for sink, expected in self._expected.items():
            lost = expected.exact - self.rows[sink]
            if lost:
                found.append(f"{sink} lacks {lost.total()} of {expected.exact.total()}: {dict(lost.most_common(5))}")
        return found

    # -- inside --------------------------------------------------------------------------------------------------------

    def _add(self, sink: str, number: int, rows: Sequence[Any]) -> None:
        there, most = self.rows[sink], self._expected[sink].most
        for row in rows:
            for facet in self.fold.facets(sink, row):
                there[facet] += 1
                if there[facet] > most[facet]:
                    often = f"{there[facet]} times instead of {most[facet]}"
                    self.world.problem(f"{sink} commits {facet} {often}, with snapshot {number}")

    def _check(self, number: int) -> None:
        if number not in self.durable:
            self.world.problem(f"snapshot {number} is committed, and its manifest is not durable")
        if number < self._newest:
            self.world.problem(f"snapshot {number} is committed for the first time after {self._newest}")
        if number > self._newest:
            self._check_cut(self._newest)
            self._newest = number

    def _check_cut(self, number: int) -> None:
        positions: Mapping[tuple[str, int], int] = self.positions.get(number, {})
        if len(positions) < self.fold.n_spouts:
            return
        for sink, expected in self.fold.expected(positions).items():
            if expected.is_whole_at_cuts and expected.exact != self.rows[sink]:
                lost, more = expected.exact - self.rows[sink], self.rows[sink] - expected.exact
                text = f"lacks {dict(lost.most_common(3))}, and has {dict(more.most_common(3))} too much"
                self.world.problem(f"{sink} {text}, by the positions of snapshot {number}")
