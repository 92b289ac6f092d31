"""BoltBehaviour: what is wrong with the bolts of a random topology, though nothing is wrong with the world."""

from __future__ import annotations

import random

from aiostorm import Config
from aiostorm.testing.simulation import World

from .progress import Hang

HANGS = 0.35
"""The share of seeds with a task that hangs or is slow, among those in which bolts do not hold rows for long."""


class BoltBehaviour:
    """The behaviour of one seed's bolts: they hold rows for long, or a task of one hangs, or neither.

    `holds`: rich bolts release every third or eleventh row, or at a tick that comes every 12 s; then a spout may have
    as many messages open as all of them hold, and one more, and nothing is joined: something can always be done.
    Where a task hangs, more messages than it can have rows: what waits behind it holds up no other message.
    """

    HOLDS_S = 12.0

    def __init__(self, chance: random.Random, holds: bool, hung: str) -> None:
        self.chance, self.holds, self.hung = chance, holds, hung
        self.tick_s = self.HOLDS_S if holds else 0.5
        self.holding = 0
        """So many rows may be held."""

    @classmethod
    def drawn(cls, world: World) -> BoltBehaviour:
        """Of a world's seed."""
        chance = world.chance.stream("plight")
        holds = chance.choice((True, False, False))
        hangs = not holds and world.chance.stream("hangs").random() < HANGS
        return cls(chance, holds, "b0" if hangs else "")

    def grouping(self, name: str, drawn: str, local: bool) -> str:
        """How it is fed: if a task of it hangs, by one for which any of its tasks will do."""
        return (
            self.chance.choice(("shuffle", "none", "partial", *["local", "first"] * local))
            if name == self.hung
            else drawn
        )

    def kind(self, drawn: str, name: str) -> str:
        """Which kind of bolt it is."""
        if name == self.hung:
            return "async"
        return self.chance.choice(("rich", "rich", drawn)) if self.holds and drawn != "rich" else drawn

    def hang(self, world: World, parallelism: int, hangs_s: tuple[float, float]) -> Hang:
        """One task of it, for a while."""
        latest_s, longest_s = hangs_s
        from_s = world.now_s + self.chance.uniform(0.5, latest_s)
        to_s = from_s + self.chance.uniform(0.5, 1.0) * longest_s
        takes_s = self.chance.choice((None, None, 0.5))
        return Hang(self.hung, self.chance.randrange(parallelism), from_s, to_s, takes_s)

    def settled(self, config: Config, *, forgets: bool, local: bool) -> Config:
        """As many messages may be open as it takes: each that is forgotten is open until it times out."""
        if self.hung:
            holds = 2 * config.mailbox_capacity_tuples + config.turn_max_tuples
            return config.merge({"max_spout_pending": self.chance.choice((None, holds + 5)) if local else None})
        if self.holds:
            most = None if forgets else self.holding + self.chance.choice((1, 1, 5, 100))
            return config.merge({"max_spout_pending": most, "message_timeout_s": 10 * self.HOLDS_S})
        if forgets and config.max_spout_pending is not None:  # forgotten ones, one at a time, take longer than a run
            return config.merge({"max_spout_pending": max(8, config.max_spout_pending)})
        return config
