"""Switch: the network between all processes of a world: listeners, and what happens to frames in flight.

    a ── path a>b ──► b      each direction has its own faults: it breaks connections, refuses them, is late or narrow,
    a ◄── path b>a ── b      and may be cut: frames in flight then wait for the end of the cut, or the connection breaks

1. Faults set the paths; sender and receiver know nothing of them. All of it is drawn from the path's own stream.
2. A connection that is broken (`cut`, `half`, a machine that dies silently) ends for each side separately: soon, or
   when it sends, or after minutes, as the seed says. No frame inside a connection is lost, repeated or overtaken alone:
   TCP does not do that.
3. What is registered here belongs to one incarnation of a process, and ends with it.

From: TCP, for what is known of a dead peer: an end (FIN), a reset (RST), or nothing at all.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .connection import SimConnection
    from .flight import Flight
    from .network import SimListener
    from .world import World

SILENT: Final = 0.25
"""How often the peers of a process do not notice its death: its machine has died, or the path to it."""


@dataclass(slots=True, eq=False)
class Path:
    """One direction between two processes. A fault script sets what happens on it."""

    source: str
    target: str
    chance: random.Random
    delay_s: float
    breaks: float = 0.0
    """The share of frames at which the connection breaks."""
    refuses: float = 0.0
    """Not 0: new connections are refused."""
    lag_s: float = 0.0
    rate_bytes_s: float = 0.0
    """Its bandwidth; 0: unlimited."""
    narrowed_bytes_s: float = 0.0
    """Its bandwidth while a fault narrows it; 0: no fault."""
    cut: bool = False
    cuts: int = 0
    slowed: dict[Flight, None] = field(default_factory=dict)
    """The flights that have had frames on it while its bandwidth was limited."""
    held: list[Flight] = field(default_factory=list)
    """One entry for each frame that waits for the end of the cut: its flight."""

    @property
    def bandwidth(self) -> float:
        """Bytes a second; 0: unlimited."""
        if self.rate_bytes_s and self.narrowed_bytes_s:
            return min(self.rate_bytes_s, self.narrowed_bytes_s)
        return self.rate_bytes_s or self.narrowed_bytes_s

    def widen(self) -> None:
        """It carries more now: the frames on the line arrive sooner."""
        slowed, self.slowed = self.slowed, {}
        for flight in slowed:
            flight.hasten()

    def draw_delay_s(self) -> float:
        """How long this frame takes."""
        chance = self.chance
        return self.delay_s * (1.0 + chance.random()) + (self.lag_s * chance.random() if self.lag_s else 0.0)

    def happens(self, rate: float) -> bool:
        """Draw at this rate."""
        return rate > 0.0 and self.chance.random() < rate


class Switch:
    """All paths, listeners and connections of a world. `counts`: frames sent, received, lost; connections; …"""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counts: Counter[str] = Counter()
        self.most_buffered_bytes = 0
        """The largest fill of one connection's buffer."""
        self.describe: Callable[[bytes], str] = lambda frame: f"frame of {len(frame)} bytes"
        self.listeners: dict[str, SimListener] = {}
        self.bandwidth_bytes_s: tuple[float, float] | None = None
        """The range of bandwidths of new paths; None: unlimited."""
        self._ends: dict[str, dict[SimConnection, None]] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._chance = world.chance.stream("switch")
        self._ports = 0

    # -- what faults do ----------------------------------------------------------------------------------------------

    def path(self, source: str, target: str) -> Path:
        """The path from one process to another."""
        path = self._paths.get((source, target))
        if path is None:
            chance = self.world.chance.stream(f"path {source}>{target}")
            path = Path(source, target, chance, 5e-5 * 100.0 ** chance.random())
            path.rate_bytes_s = self._rate(source, target)
            self._paths[source, target] = path
        return path

    def _rate(self, source: str, target: str) -> float:
        if self.bandwidth_bytes_s is None:
            return 0.0
        least, most = self.bandwidth_bytes_s
        return float(least * (most / least) ** self.world.chance.stream(f"bandwidth {source}>{target}").random())

    def paths(self) -> list[Path]:
        """All paths that were used so far."""
        return list(self._paths.values())

    def set_cut(self, path: Path, cut: bool) -> None:
        """Cut a path, or restore it: frames that waited then arrive late, or their connection breaks."""
        if cut and not path.cut:
            path.cut = True
            path.cuts += 1
        elif path.cut and not cut:
            path.cut = False
            held, path.held = path.held, []
            arrives: dict[Flight, bool] = {}
            for flight in held:
                if flight not in arrives:
                    arrives[flight] = path.chance.random() < 0.5
                if arrives[flight]:
                    self.world.call_at(self.world.now_s + path.draw_delay_s(), flight.arrive)
                else:
                    flight.lose_held()

    def break_between(self, one: str, other: str) -> int:
        """Cut every connection between two processes; returns how many. Each end notices in its own time."""
        found = [end for end in self._ends.get(one, ()) if end.peer == other]
        for end in found:
            self.counts["cut"] += 1
            for side in (end, end.other):
                side.break_off(self._chance)
        return len(found)

    def halve_between(self, one: str, other: str) -> int:
        """Every connection between the two ends for `one`; `other` notices when it sends, or after minutes."""
        found = [end for end in self._ends.get(one, ()) if end.peer == other]
        for end in found:
            self.counts["cut"] += 1
            end.other.break_off(self._chance, soon=0.0)
            end.end("is cut")
        return len(found)

    def silence_between(self, one: str, other: str) -> int:
        """On every connection between the two, nothing from `one` arrives any more; the other direction works."""
        found = [end for end in self._ends.get(one, ()) if end.peer == other]
        for end in found:
            self.counts["silenced"] += 1
            end.fall_silent()
        return len(found)

    # -- what processes do -------------------------------------------------------------------------------------------

    def new_port(self) -> int:
        """A port that is free."""
        self._ports += 1
        return 49_151 + self._ports

    def plug(self, end: SimConnection) -> None:
        """A connection has begun at this end."""
        self._ends.setdefault(end.incarnation.process.name, {})[end] = None

    def unplug(self, end: SimConnection) -> None:
        """It has ended here."""
        self._ends.get(end.incarnation.process.name, {}).pop(end, None)

    def connections(self, process: str) -> int:
        """How many connections a process has now."""
        return len(self._ends.get(process, ()))

    def process_died(self, name: str, *, crashed: bool) -> None:
        """A process has died: its listeners and connections end with it."""
        for address in [a for a, listener in self.listeners.items() if listener.incarnation.process.name == name]:
            del self.listeners[address]
        silent = crashed and self._chance.random() < SILENT
        for end in list(self._ends.pop(name, ())):
            if silent:
                end.other.break_off(self._chance, soon=0.0)
                end.end("dies with its machine")
            elif crashed and self._chance.random() < 0.5:
                end.reset()
            else:
                end.close()
