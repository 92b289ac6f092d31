"""Narrow lines: in some seeds the paths of a world carry little, and large values go over them in parts.

In some of these the parts are small, too: so that what is no large value is cut up as well.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

from aiostorm.testing.simulation import World
from aiostorm.transport.link import line_rate

from .planted.planting import replaced

SHARE = 0.3

RATES_BYTES_S = (30e3, 1e6)

REAL_BYTES = (line_rate.FIRST_BYTES, line_rate.MOST_BYTES)
SIZES_BYTES = ((300, 1000), (2000, 8000), REAL_BYTES)
"""The first and the largest size of a frame. (Parts of 100 bytes, of values of 100 kB, take a seed a minute.)"""


def is_narrow(world: World) -> bool:
    """Is this world's seed one of those?"""
    return world.chance.stream("narrow").random() < SHARE


@contextlib.contextmanager
def lines_of(world: World, sizes_bytes: Sequence[tuple[int, int]] = SIZES_BYTES) -> Iterator[None]:
    """For the length of the block, paths that the world makes are as its seed says."""
    if not is_narrow(world):
        yield
        return
    chance = world.chance.stream("bandwidth")
    world.switch.bandwidth_bytes_s = RATES_BYTES_S
    first, most = chance.choice(sizes_bytes)
    with (
        replaced(line_rate, "FIRST_BYTES", first),
        replaced(line_rate, "LEAST_BYTES", min(first, line_rate.LEAST_BYTES)),
        replaced(line_rate, "MOST_BYTES", most),
    ):
        yield


def large_size(chance: random.Random, most_bytes: int) -> int:
    """Of a value that takes its time."""
    return chance.randint(most_bytes // 10, most_bytes)
