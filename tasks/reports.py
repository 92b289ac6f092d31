"""Reports: errors in user code, for people and programs.

1. Every error names topology, component, task and, where there is one, the input tuple.
2. All are counted; the last `kept` are kept. The log has each kind (component, type, line) once with its traceback,
   then at most once a second with the number left out: a bolt that fails on every tuple must not fill the disk. The log
   shows frames of user code; the report, and the log at level DEBUG, have all of them.
3. Texts are bounded, and no value can break them: a report is made while something fails already, perhaps about a value
   of a million characters, or one whose `__repr__` raises.
"""

from __future__ import annotations

import logging
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..topology import Tuple, TupleBatch
from .frames import own_frames

log = logging.getLogger("aiostorm.component")

REPEAT_S = 1.0
MAX_TUPLE, MAX_ERROR, MAX_TRACEBACK, MAX_MESSAGES = 600, 2_000, 20_000, 10


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """One error: `error` is "ValueError: …", `traceback` the text that Python would print, `time` seconds since 1970.

    For a resource of the worker: `component` is "resource 'db'", `task` 0.
    """

    topology: str
    component: str
    task: int
    where: str
    error: str
    traceback: str
    tuple: str | None
    time: float

    def __str__(self) -> str:
        on = f" on {self.tuple}" if self.tuple else ""
        name = f"{self.component}[{self.task}]" if self.task else self.component
        return f"{self.topology}: {name} failed in {self.where}{on}: {self.error}"


@dataclass(slots=True)
class _LoggedKind:
    logged_s: float
    left_out: int = field(default=0)


class ErrorLog:
    """The errors of one running topology."""

    def __init__(self, topology: str, kept: int = 200) -> None:
        self.count = 0
        self._topology = topology
        self._last: deque[ErrorReport] = deque(maxlen=kept)
        self._kinds: dict[tuple[str, type[BaseException], int], _LoggedKind] = {}

    @property
    def last(self) -> list[ErrorReport]:
        """The last errors, oldest first."""
        return list(self._last)

    def add(
        self,
        component: str,
        task: int,
        where: str,
        error: BaseException,
        *,
        tup: object | None,
        wall_s: float,
        now_s: float,
        hint: str = "",
    ) -> ErrorReport:
        """Count, keep and (sometimes) log an error. `wall_s` is seconds since 1970, `now_s` monotonic.

        `hint`: a possible cause; it stands below the traceback.
        """
        self.count += 1
        report = ErrorReport(
            topology=self._topology,
            component=component,
            task=task,
            where=where,
            error=describe(error),
            traceback=_clipped("".join(traceback.format_exception(error)), MAX_TRACEBACK) + hint,
            tuple=None if tup is None else _shown(tup),
            time=wall_s,
        )
        self._last.append(report)
        self._log(report, error, now_s, hint, _messages(tup))
        return report

    def _log(self, report: ErrorReport, error: BaseException, now_s: float, hint: str, messages: Sequence[str]) -> None:
        known = {"topology": report.topology, "component": report.component, "task": report.task}
        extra = {"aiostorm": {**known, "tuple": report.tuple, "messages": messages or None}}  # for log lines in JSON
        line = error.__traceback__
        while line is not None and line.tb_next is not None:
            line = line.tb_next
        kind = (report.component, type(error), line.tb_lineno if line is not None else 0)
        logged = self._kinds.get(kind)
        if logged is None:
            if len(self._kinds) >= 1000:  # a bound: exception types are user code's
                self._kinds.clear()
            self._kinds[kind] = _LoggedKind(now_s)
            lines = [str(report), _clipped(own_frames(error), MAX_TRACEBACK), hint]
            if log.isEnabledFor(logging.DEBUG):
                lines = [str(report), report.traceback.rstrip()]
            log.error("%s", "\n".join(line for line in lines if line), extra=extra)
        elif now_s - logged.logged_s >= REPEAT_S:
            more = f" (and {logged.left_out:,} more like it)" if logged.left_out else ""
            log.error("%s%s", report, more, extra=extra)
            logged.logged_s, logged.left_out = now_s, 0
        else:
            logged.left_out += 1


def describe(error: BaseException | str) -> str:
    """An error in one line: "ValueError: bad"."""
    if isinstance(error, str):
        return _clipped(error, MAX_ERROR)
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text cannot be read: {type(broken).__name__})"
    return _clipped(f"{type(error).__name__}: {text}" if text else type(error).__name__, MAX_ERROR)


def _messages(tup: object) -> list[str]:
    """The tree and the index of each message that a tuple belongs to: "5f3a…:0"."""
    pairs = tup.segment.pairs_of(tup.offset) if isinstance(tup, Tuple) else ()
    return [f"{root:016x}:{index}" for root, index in pairs[:MAX_MESSAGES]]


def _shown(tup: object) -> str:
    try:
        if isinstance(tup, TupleBatch):
            return f"a batch of {len(tup)}, the first {_shown(tup[0])}"
        return _clipped(repr(tup), MAX_TUPLE)
    except Exception as broken:
        return f"a {type(tup).__name__} that cannot be shown ({type(broken).__name__} in a __repr__)"


def _clipped(text: str, limit: int) -> str:
    """Beginning and end of a text that is too long."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]} … {text[-limit // 2 :]}"
