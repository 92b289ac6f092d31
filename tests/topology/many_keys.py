"""A few thousand keys of every kind, the same in every process, and as a script: their hashes, a line each."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import random
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiostorm.topology import stable_hash


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Customer:
    bank: str
    number: int


def many_keys(count: int = 3000) -> list[tuple[Any, ...]]:
    rng = random.Random(11)

    def text() -> str:
        return "".join(rng.choices("abcäß語🙂\udc80 \0", k=rng.randrange(9)))

    makers = [
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.randrange(-(10**6), 10**6),
        lambda: rng.getrandbits(200) - (1 << 199),
        rng.random,
        lambda: rng.choice([float("nan"), float("inf"), -0.0, 1e300, 5e-324]),
        lambda: decimal.Decimal(rng.randrange(10**9)) / 1000,
        lambda: fractions.Fraction(rng.randrange(99), rng.randrange(1, 99)),
        lambda: complex(rng.randrange(3), rng.randrange(3)),
        text,
        lambda: rng.randbytes(rng.randrange(9)),
        lambda: dt.datetime(2026, 1, 1) + dt.timedelta(seconds=rng.randrange(10**7)),
        lambda: dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=rng.randrange(-9, 9)))),
        lambda: dt.date.fromordinal(rng.randrange(700_000, 740_000)),
        lambda: dt.time(rng.randrange(24), rng.randrange(60)),
        lambda: dt.timedelta(microseconds=rng.randrange(10**12)),
        lambda: uuid.UUID(int=rng.getrandbits(128)),
        lambda: rng.choice(list(Colour)),
        lambda: rng.choice(list(Level)),
        lambda: Point(rng.randrange(9), rng.randrange(9)),
        lambda: Customer(text(), rng.randrange(99)),
        lambda: (text(), (rng.randrange(9), None)),
        # The order in which a set is walked depends on the hash seed.
        lambda: frozenset(text() for _ in range(8)),
        lambda: frozenset([frozenset([text(), text()]), text(), rng.randrange(9)]),
    ]
    return [tuple(rng.choice(makers)() for _ in range(rng.randrange(1, 3))) for _ in range(count)]


if __name__ == "__main__":
    for key in many_keys():
        print(stable_hash(key))
