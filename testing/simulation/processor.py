"""The processor of a simulated process: how long its callbacks take, and until when it is frozen."""

from __future__ import annotations


class Processor:
    """Its faults and its state (pure). Seconds of true time."""

    __slots__ = ("busy_until_s", "handle_cost_s", "paused_until_s", "slowness")

    def __init__(self) -> None:
        self.handle_cost_s = 0.0
        """What a callback takes at full speed."""
        self.slowness = 1.0
        self.busy_until_s = 0.0
        self.paused_until_s = 0.0

    def restart(self) -> None:
        """A new incarnation starts: it is neither busy nor frozen. (A slow processor stays slow.)"""
        self.busy_until_s = self.paused_until_s = 0.0

    def pause(self, until_s: float) -> None:
        """Freeze it until then, unless it is frozen for longer."""
        self.paused_until_s = max(self.paused_until_s, until_s)

    def heal(self) -> None:
        """It is fast and not frozen."""
        self.slowness, self.paused_until_s = 1.0, 0.0

    def is_harmed(self, now_s: float) -> bool:
        """Is it slow or frozen?"""
        return self.slowness != 1.0 or self.paused_until_s > now_s

    def free_s(self, due_s: float) -> float:
        """When it can do what is due then."""
        return max(due_s, self.busy_until_s, self.paused_until_s)

    def ran(self, handles: int, now_s: float) -> None:
        """It has begun to run so many callbacks, and is busy with them."""
        self.busy_until_s = now_s + self.handle_cost_s * self.slowness * handles
