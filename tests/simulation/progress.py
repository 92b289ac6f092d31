"""Progress: while one task can work, something is done within STILL_S; in terms of the model.

    model: rows on their way, messages that are complete ─┐
    sources: rows that are due, messages that are open ───┴─► is there work? ─► has anything been done?

1. *Done* is: a row is executed, a message is emitted, acked or failed.
2. *There is work* if a message is complete and has not been settled; if a row was emitted and has not come to a task;
   or if a source has a row that is due, and fewer messages open than one of its tasks may have. Rows that a bolt holds
   are no work, nor are rows for a bolt of which a task hangs; what the source of such rows has to emit still is: the
   other tasks can work (it may be paced at what the hanging task has taken so far for its tuple). So is a message
   that is complete, unless other workers are in it: rows that have come to one, and that the mailbox of a task that
   hangs does not take, stay in their trees.
3. Of one source, what is before its rows in mailboxes counts: it has STILL_S and what all of them hold, at ROW_S each.
   Edges inside a cycle put rows into a mailbox beyond its capacity (`beyond`): those count as they are, for a minute.
4. Nothing is asked for while a fault is at work, nor until its messages have timed out (`excused`).
5. Calm and without a task that hangs, a message fails only if a row of it has failed or was forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiostorm import Config, Failure

from .model import Emission, Model

STILL_S = 5.0
LOOK_S = 1.0
BEYOND_LOOKS = 60
ROW_S = 0.1
"""What a tuple takes at the most, of any bolt but one that hangs."""


@dataclass(frozen=True, slots=True)
class Hang:
    """From `from_s` to `to_s` (true seconds) a task of a bolt takes `takes_s` for a tuple; None: until `to_s`."""

    component: str
    index: int
    from_s: float
    to_s: float
    takes_s: float | None

    def wait_s(self, component: str, index: int, now_s: float) -> float:
        """So long a tuple takes that is begun now."""
        if (component, index) != (self.component, self.index) or not self.from_s <= now_s < self.to_s:
            return 0.0
        return self.to_s - now_s if self.takes_s is None else self.takes_s


class Progress:
    """Of one run. `excused` says whether a fault is at work; `calm`: none ever is; `spread`: it has several workers."""

    def __init__(
        self,
        model: Model,
        sources: Mapping[str, Any],
        config: Config,
        bolts: int,
        *,
        excused: Callable[[], bool],
        calm: Callable[[], bool],
        spread: bool = False,
        beyond: Callable[[], int] = lambda: 0,
    ) -> None:
        self.spread = spread
        self.model = model
        self.world = model.world
        self.sources = sources
        self.excused = excused
        self.calm = calm
        self.over = False
        self.looks = 0
        """So often it was looked, and nothing was excused."""
        self._limit = config.max_spout_pending
        self._slack_s = STILL_S + ROW_S * config.mailbox_capacity_tuples * bolts
        self._beyond = beyond
        self._beyond_lately: deque[int] = deque(maxlen=BEYOND_LOOKS)
        self._unharmed_from_s = self.world.now_s
        model.on_failure = self.failed

    @property
    def hangs(self) -> bool:
        """Does a task hang, or has it just continued?"""
        hang = self.model.hang
        return hang is not None and hang.from_s <= self.world.now_s <= hang.to_s + STILL_S

    def watch(self) -> None:
        """Look, now and again."""
        if self.over:
            return
        self._beyond_lately.append(self._beyond())
        if self.excused():
            self._unharmed_from_s = self.world.now_s
        else:
            self._look()
        self.world.call_at(self.world.now_s + LOOK_S, self.watch)

    def _look(self) -> None:
        self.looks += 1
        now_s, model = self.world.now_s, self.model
        still_from_s = max(self._unharmed_from_s, max(model.touched_s.values(), default=0.0))
        for source in self.sources:
            since_s = max(self._unharmed_from_s, model.touched_s.get(source, 0.0))
            still = now_s - still_from_s > STILL_S
            if not still and now_s - since_s <= self._slack_s + ROW_S * max(self._beyond_lately):
                continue
            work = self._work(source, now_s - STILL_S, still_from_s if still else since_s)
            if work:
                what = "nothing" if still else f"nothing of {source}"
                self.world.problem(f"{what} was done for {now_s - (still_from_s if still else since_s):.1f} s; {work}")
                self._unharmed_from_s = now_s

    def _work(self, source: str, before_s: float, since_s: float) -> str:
        """What there was to do all the time. `since_s`: nothing was done."""
        model, book = self.model, self.sources[source].read
        for (name, message, attempt), at_s in model.complete.items() if not (self.spread and self.hangs) else ():
            if name == source and at_s < before_s and _is_open(book, message, attempt):
                emission = (name, message, attempt)
                return f"{emission} is complete since {at_s:.3f} s, and is not acked"
        hung = model.hang.component if model.hang is not None and self.hangs else None
        for (node, consumer, _), (emission, at_s) in model.waiting.items():
            if emission[0] != source or at_s >= before_s or consumer == hung or model.trees[emission].failed:
                continue
            if _is_open(book, *emission[1:]):
                return f"row {node} is on its way to {consumer} since {at_s:.3f} s"
        paced_s = self.world.now_s - model.hang.from_s if model.hang is not None and self.hangs else 0.0
        if since_s >= before_s - paced_s:
            return ""
        if book.queue and book.queue[0][0] < before_s and (self._limit is None or len(book.open) < self._limit):
            return f"{source} has had something to emit since {book.queue[0][0]:.3f} s, and {len(book.open)} are open"
        return ""

    def failed(self, emission: Emission, failure: Failure, rows: int, *, harmed: bool) -> None:
        """A message has failed, of which some rows had not come to a task. `harmed`: a row failed, or was forgotten."""
        if not harmed and self.calm() and self.model.hang is None:
            self.world.problem(
                f"{emission} has failed ({failure.reason}), and nothing of it has; {rows} rows were open"
            )


def _is_open(book: Any, message: int, attempt: int) -> bool:
    """Is it this attempt that is open? (Of one that a dead process has made, rows may be lost.)"""
    return message in book.open and book.emitted[message] == attempt
