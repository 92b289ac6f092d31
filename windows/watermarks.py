"""Watermarks: one watermark of all input tasks, by a policy. Windows that end at or before it get no more rows.

    task 3 ─ 40 ─┐                        GLOBAL_MAX_TIMESTAMP            50: the greatest
    task 4 ─ 50 ─┼─► Watermarks ─► 40     MAX_TIMESTAMP_WITH_RATIO (0.6)  40: 2 of 3 have reached it
    task 5 ─ 20 ─┘ (idle: left out)       TASK_MAX_GLOBAL_MIN_TIMESTAMP   40: the least that is not idle

1. Neither the watermark of an input task nor that of all goes back.
2. An input task that has sent nothing for `idle_timeout_ms` of processing time is idle: it does not count until it
   sends again. All count as active when the topology starts, so that a task that never sends becomes idle as well.
3. When all are idle, the greatest watermark counts: the order in which they became idle makes no difference.
4. An active input task without a watermark holds back the others as if it were infinitely far behind.
5. An input task that has ended is left out too, until it sends again. When all have ended, the watermark is END_MS: no
   more rows will arrive.
6. The share of MAX_TIMESTAMP_WITH_RATIO is computed anew for each window: the watermark that enough input tasks have
   reached is, for every window, whether enough of them have passed its end.

From: JStorm, WatermarkTriggerPolicy and WindowedBoltExecutor.checkEventTimeWindows, which carries the count from one
window to the next (depart), and has no idle inputs (depart); Flink, StatusWatermarkValve (FLINK-8001, FLINK-38454).
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from .assigners import whole
from .dumps import least_known, time_or_none, whole_number
from .errors import WindowError
from .values import is_a

if TYPE_CHECKING:
    from .values import Value

END_MS: Final = 2**62
"""The watermark after the last row: later than every time."""


class WatermarkPolicy(enum.Enum):
    """How the watermark of all is chosen from those of the input tasks."""

    GLOBAL_MAX_TIMESTAMP = "global max"
    MAX_TIMESTAMP_WITH_RATIO = "max with ratio"
    TASK_MAX_GLOBAL_MIN_TIMESTAMP = "task max, global min"


class _Input:
    __slots__ = ("active_ms", "ended", "idle", "watermark")

    def __init__(self, active_ms: int) -> None:
        self.active_ms = active_ms
        self.ended = False
        self.idle = False
        self.watermark: int | None = None


class Watermarks:
    """The watermarks of one task. `watermark`: None until enough is known. `decisions`: counts possible changes."""

    def __init__(
        self,
        inputs: Iterable[Hashable],
        *,
        policy: WatermarkPolicy = WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP,
        ratio: float = 0.9,
        idle_timeout_ms: int | None = None,
        now_ms: int = 0,
    ) -> None:
        if not is_a(policy, WatermarkPolicy):
            raise WindowError(f"the policy of watermarks is {policy!r}; give a WatermarkPolicy")
        if not _is_share(ratio):
            raise WindowError(f"the ratio of input tasks is {ratio!r}; give a share above 0 and up to 1")
        self.watermark: int | None = None
        self.decisions = 0
        self._policy = policy
        self._ratio = Fraction(str(ratio))  # 0.9 of ten is nine, and not one more for the last bit of a float
        self._idle_timeout_ms = None if idle_timeout_ms is None else whole(idle_timeout_ms, "idle_timeout_ms")
        self._inputs = {name: _Input(now_ms) for name in inputs}
        if not self._inputs:
            raise WindowError("watermarks of no input tasks; name those that the windows are fed by")

    @property
    def idle(self) -> frozenset[Hashable]:
        """The input tasks that are idle."""
        return frozenset(name for name, known in self._inputs.items() if known.idle)

    @property
    def all_idle(self) -> bool:
        """Whether all input tasks are idle or ended, and not all have ended."""
        inputs = self._inputs.values()
        return all(known.idle or known.ended for known in inputs) and not all(known.ended for known in inputs)

    @property
    def next_idle_ms(self) -> int | None:
        """When the next input task becomes idle if it sends nothing; None: none will."""
        if self._idle_timeout_ms is None:
            return None
        active_since = [known.active_ms for known in self._inputs.values() if not (known.idle or known.ended)]
        return min(active_since) + self._idle_timeout_ms if active_since else None

    def of(self, name: Hashable) -> int | None:
        """The watermark of an input task."""
        return self._inputs[name].watermark

    def on_activity(self, name: Hashable, now_ms: int) -> int | None:
        """An input task has sent something. Returns the watermark of all."""
        known = self._inputs.get(name)
        if known is None:  # added by a rebalance
            known = self._inputs[name] = _Input(now_ms)
        known.active_ms = max(known.active_ms, now_ms)
        if known.idle or known.ended:
            known.idle = known.ended = False
            self._decide()
        return self.tick(now_ms)

    def end(self, name: Hashable, now_ms: int) -> int | None:
        """An input task has ended. Returns the watermark of all."""
        self.on_activity(name, now_ms)
        self._inputs[name].ended = True
        self._decide()
        return self.watermark

    def advance(self, name: Hashable, watermark_ms: int, now_ms: int) -> int | None:
        """An input task has sent a watermark. Returns the watermark of all."""
        self.on_activity(name, now_ms)
        return self.on_progress(name, watermark_ms)

    def on_progress(self, name: Hashable, watermark_ms: int) -> int | None:
        """Like `advance`, for a watermark derived from earlier rows: the input task has not sent anything now."""
        known = self._inputs[name]
        if known.watermark is None or watermark_ms > known.watermark:
            known.watermark = watermark_ms
            self._decide()
        return self.watermark

    def tick(self, now_ms: int) -> int | None:
        """Find idle input tasks at this time of the task's clock. Returns the watermark of all."""
        if self._idle_timeout_ms is not None:
            changed = False
            for known in self._inputs.values():
                if not (known.idle or known.ended) and now_ms - known.active_ms >= self._idle_timeout_ms:
                    known.idle = changed = True
            if changed:
                self._decide()
        return self.watermark

    def dump(self, now_ms: int) -> dict[str, Value]:
        """What it knows, as plain values. How long inputs have sent nothing is relative to `now_ms`."""
        inputs = {
            name: (known.watermark, known.idle, known.ended, now_ms - known.active_ms)
            for name, known in self._inputs.items()
        }
        return {"watermark": self.watermark, "inputs": inputs}

    def load(self, state: dict[str, Value], now_ms: int) -> None:
        """Load what `dump` gave."""
        self.watermark = time_or_none(state["watermark"], "the watermark")
        for name, (watermark, idle, ended, silent_ms) in state["inputs"].items():
            known = self._inputs[name] = _Input(now_ms - whole_number(silent_ms, "the silence of an input"))
            known.watermark = time_or_none(watermark, "the watermark of an input")
            known.idle, known.ended = bool(idle), bool(ended)

    @staticmethod
    def least(first: dict[str, Value], second: dict[str, Value]) -> dict[str, Value]:
        """What two tasks with the same inputs both know, of their dumps: no more than either of them had promised."""
        inputs: dict[Hashable, Value] = {}
        for name, (watermark, idle, ended, silent_ms) in first["inputs"].items():
            other, is_idle, has_ended, other_silent_ms = second["inputs"][name]
            silent_ms = min(silent_ms, other_silent_ms)
            inputs[name] = least_known(watermark, other), idle and is_idle, ended and has_ended, silent_ms
        return {"watermark": least_known(first["watermark"], second["watermark"]), "inputs": inputs}

    def _decide(self) -> None:
        self.decisions += 1
        active = [known.watermark for known in self._inputs.values() if not (known.idle or known.ended)]
        decided: int | None
        if all(known.ended for known in self._inputs.values()):
            decided = END_MS
        elif active:
            decided = self._by_policy(active)
        else:
            watermarks = [known.watermark for known in self._inputs.values() if known.watermark is not None]
            decided = max(watermarks, default=None)
        if decided is not None and (self.watermark is None or decided > self.watermark):
            self.watermark = decided

    def _by_policy(self, active: list[int | None]) -> int | None:
        known = sorted((watermark for watermark in active if watermark is not None), reverse=True)
        if self._policy is WatermarkPolicy.GLOBAL_MAX_TIMESTAMP:
            enough = 1
        elif self._policy is WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP:
            enough = len(active)
        else:
            enough = max(1, -(-self._ratio.numerator * len(active) // self._ratio.denominator))
        return known[enough - 1] if len(known) >= enough else None


def _is_share(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= 1
