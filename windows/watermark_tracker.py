"""Watermark tracker: the watermark of one task, from what its input tasks send.

    rows of task 3 ───────► its generator ─┐
    watermarks of task 4 ──────────────────┼─► Watermarks ─► watermark
    the clock ─► intervals, idleness ──────┘

1. A watermark that an input task *sends* counts; timestamps of rows are used only for input tasks that send none.
2. `lag_ms` is subtracted from received watermarks too: rows may be that far behind them.
3. The end of an input task (END_MS) counts from every input task.
4. It sets no useless timers: `next_ms` is None if the passing of time changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .dumps import VERSION, WRONG, check_identity, damaged
from .safe_generator import SafeGenerator
from .watermarks import END_MS, Watermarks

if TYPE_CHECKING:
    from .generators import Generator
    from .settings import TimeSettings
    from .values import Row, RowKey, Value


class WatermarkTracker:
    """The tracker of one task. `inputs`: input task → whether it sends watermarks. Times: ms of this task's clock.

    `failed` gets the exceptions of the user's generators.
    """

    def __init__(
        self,
        inputs: Mapping[int, bool],
        settings: TimeSettings,
        now_ms: int,
        failed: Callable[[Exception], None],
        *,
        generators: bool = True,
    ) -> None:
        self._watermarks = Watermarks(
            inputs,
            policy=settings.policy,
            ratio=settings.ratio,
            idle_timeout_ms=settings.idle_timeout_ms,
            now_ms=now_ms,
        )
        self.skipped_ms = 0  # time that is not counted: the task could not receive
        self._started = 0
        self._sends_watermarks = dict(inputs)
        self._lag_ms = settings.lag_ms
        self._generators: dict[int, Generator] = {}
        if generators:
            self._generators = {task: settings.new_generator() for task, sends in inputs.items() if not sends}
        if settings.generator is not None:  # the user's
            self._generators = {task: SafeGenerator(made, failed) for task, made in self._generators.items()}

    @property
    def watermark(self) -> int | None:
        """The watermark of all input tasks; None: not known yet. END_MS: all have ended."""
        return self._watermarks.watermark

    @property
    def reads_rows(self) -> bool:
        """Whether it reads rows, since not all input tasks send watermarks."""
        return bool(self._generators)

    @property
    def changes(self) -> int:
        """A number that changes when the watermark may have changed, or `next_ms` may be earlier."""
        return self._watermarks.decisions + self._started

    @property
    def next_ms(self) -> int | None:
        """When `tick` must be called next; None: never."""
        known = [at_ms for generator in self._generators.values() if (at_ms := generator.next_tick_ms) is not None]
        idle_ms = self._watermarks.next_idle_ms
        if idle_ms is not None:
            known.append(idle_ms)
        return min(known, default=None)

    @property
    def idle(self) -> frozenset[RowKey]:
        """The input tasks that are idle: windows do not wait for them."""
        return self._watermarks.idle

    @property
    def all_idle(self) -> bool:
        """Whether all input tasks are idle or ended, and not all have ended."""
        return self._watermarks.all_idle

    def by_input(self) -> dict[int, int | None]:
        """Input task → its watermark."""
        return {task: self._watermarks.of(task) for task in self._sends_watermarks}

    def observe(self, task: int, timestamps: Sequence[int], rows: Sequence[Row], now_ms: int) -> None:
        """Add rows of an input task; `timestamps` of the readable rows."""
        sends = self._sends_watermarks.get(task)
        if sends is None:  # it closes a cycle: its rows do not show the progress of the input
            return
        self._watermarks.on_activity(task, now_ms)
        generator = self._generators.get(task)
        if generator is not None and timestamps:
            before_ms = generator.next_tick_ms
            self._on_generated(task, generator.observe(timestamps, rows))
            if generator.next_tick_ms is None:  # its interval begins with its first row
                self._on_generated(task, generator.tick(now_ms))
            self._started += generator.next_tick_ms != before_ms

    def on_watermark(self, task: int, watermark_ms: int, now_ms: int) -> None:
        """An input task has sent a watermark, or its end (END_MS)."""
        sends = self._sends_watermarks.get(task)
        if sends is None:
            return
        if watermark_ms >= END_MS:
            self._watermarks.end(task, now_ms)
        elif sends:
            self._watermarks.advance(task, watermark_ms - self._lag_ms, now_ms)
        else:
            self._watermarks.on_activity(task, now_ms)

    def tick(self, now_ms: int) -> None:
        """Apply the passing of time."""
        for task, generator in self._generators.items():
            at_ms = generator.next_tick_ms
            if at_ms is not None and at_ms <= now_ms:
                self._on_generated(task, generator.tick(now_ms))
        self._watermarks.tick(now_ms)

    def dump(self, now_ms: int) -> dict[str, Value]:
        """What it knows, as values that can be sent to another process. `now_ms`: this task's clock."""
        generators = {task: generator.dump(now_ms) for task, generator in self._generators.items()}
        return {**self._identity(), "watermarks": self._watermarks.dump(now_ms), "generators": generators}

    def load(self, dump: dict[str, Value], now_ms: int) -> None:
        """Load a dump into this tracker, which is new. WindowStateError if it is of other inputs, or is damaged.

        Of inputs that are not in the dump nothing is known: they hold the watermark back until they send one. The time
        between the dump and the load does not count: an input that sent nothing until the dump becomes idle as if there
        had been no restart.
        """
        try:
            check_identity(self._with_new_inputs(dump), self._identity())
            self._watermarks.load(dump["watermarks"], now_ms)
            for task, state in dump["generators"].items():
                if state is not None:
                    self._generators[task].load(state, now_ms)
        except WRONG as error:
            raise damaged(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def renamed(dump: dict[str, Value], tasks: Mapping[int, int]) -> dict[str, Value]:
        """A dump with other task ids for the input tasks: the topology was started with other tasks before them.

        `tasks`: the new ids by the former ones. Tasks that are not in it do not exist any more, and are left out.
        """
        settings, watermarks = dump["settings"], dump["watermarks"]
        inputs = {tasks[task]: sends for task, sends in settings["inputs"].items() if task in tasks}
        generators = {tasks[task]: state for task, state in dump["generators"].items() if task in tasks}
        known = {tasks[task]: state for task, state in watermarks["inputs"].items() if task in tasks}
        return {
            **dump,
            "settings": {**settings, "inputs": inputs, "generators": sorted(generators)},
            "watermarks": {**watermarks, "inputs": known},
            "generators": generators,
        }

    @staticmethod
    def least(dumps: Sequence[dict[str, Value]]) -> dict[str, Value]:
        """What all these tasks of a component know, of their dumps. WindowStateError if their inputs differ.

        Generators begin anew: each has seen the rows of its own task only.
        """
        first, *others = dumps
        try:
            known = first["watermarks"]
            for other in others:
                check_identity(other, first)
                known = Watermarks.least(known, other["watermarks"])
            generators = first["generators"] if not others else dict.fromkeys(first["generators"])
        except WRONG as error:
            raise damaged(f"{type(error).__name__}: {error}") from error
        return {**first, "watermarks": known, "generators": generators}

    def _with_new_inputs(self, dump: dict[str, Value]) -> dict[str, Value]:
        """The dump as if it had also the inputs of this tracker that are new."""
        settings = dump["settings"]
        inputs = {**self._sends_watermarks, **settings["inputs"]}
        new = self._sends_watermarks.keys() - settings["inputs"].keys()
        generators = sorted({*settings["generators"], *(new & self._generators.keys())})
        return {**dump, "settings": {**settings, "inputs": inputs, "generators": generators}}

    def _identity(self) -> dict[str, Value]:
        settings = {"inputs": self._sends_watermarks, "lag_ms": self._lag_ms, "generators": sorted(self._generators)}
        return {"version": VERSION, "kind": type(self).__name__, "settings": settings}

    def _on_generated(self, task: int, watermark_ms: int | None) -> None:
        if watermark_ms is not None:
            self._watermarks.on_progress(task, watermark_ms)
