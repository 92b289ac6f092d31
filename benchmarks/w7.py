"""W7, columns: keep the large amounts, group them by user, count and add up. `size` is rows.

Input: seed 42, batches of 8,192 rows: user (a string, 1,000 of them, one in a hundred drawn as often as the others
together), amount (from 0 to 999), at (milliseconds), price (an unused float). Amounts of 500 and more are kept.
Making the batches is not timed.

Oracle: counted in plain Python over the numbers that were drawn; no Arrow.

Limit: pyarrow over all batches as one table: filter, group_by, aggregate.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .cells import Outcome, WrongResultError
from .clocking import Stopwatch

SEED = 42
USERS = 1_000
BATCH_ROWS = 8_192
LEAST = 500
FIELDS = ("user", "amount", "at", "price")
Totals = Mapping[str, tuple[int, int]]
"""User → (count, sum)."""


@dataclass(frozen=True, slots=True)
class Payments:
    """What comes in, and what must come out."""

    batches: list[Any]
    expected: Totals

    def check(self, totals: Totals) -> None:
        """WrongResultError unless these are the counts and sums."""
        if dict(totals) != self.expected:
            count = sum(count for count, _ in totals.values())
            expected = sum(count for count, _ in self.expected.values())
            raise WrongResultError(f"{len(totals)} users of {count} rows; expected {len(self.expected)} of {expected}")


@lru_cache(maxsize=2)  # the warm-up's, and the run's
def payments(size: int) -> Payments:
    """So many rows."""
    rng = random.Random(SEED)
    names = [f"user-{n}" for n in range(USERS)]
    weights = [99 if n % 100 == 0 else 1 for n in range(USERS)]
    users = rng.choices(names, weights, k=size)
    amounts = rng.choices(range(1_000), k=size)
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for user, amount in zip(users, amounts, strict=True):
        if amount >= LEAST:
            row = expected[user]
            row[0] += 1
            row[1] += amount
    batches = []
    for start in range(0, size, BATCH_ROWS):
        part = slice(start, start + BATCH_ROWS)
        numbers = range(start, min(start + BATCH_ROWS, size))
        columns = [pa.array(users[part]), pa.array(amounts[part]), pa.array(numbers)]
        batches.append(pa.record_batch([*columns, pa.array([n / 8 for n in numbers])], names=FIELDS))
    return Payments(batches, {user: (count, total) for user, (count, total) in expected.items()})


def whole_table(size: int) -> Outcome:
    """The limit."""
    given = payments(size)
    with Stopwatch() as watch:
        totals = totals_of(aggregated(pa.Table.from_batches(given.batches).filter(pc.field("amount") >= LEAST)))
    given.check(totals)
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"batches": len(given.batches)})


def aggregated(table: Any) -> Any:
    """Count and sum by user."""
    return table.group_by("user").aggregate([("amount", "count"), ("amount", "sum")])


def totals_of(table: Any) -> dict[str, tuple[int, int]]:
    """An aggregated table in Python."""
    columns = (table.column(name).to_pylist() for name in ("user", "amount_count", "amount_sum"))
    return {user: (count, total) for user, count, total in zip(*columns, strict=True)}
