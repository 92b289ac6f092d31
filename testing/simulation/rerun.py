"""Rerun: a failing seed is run again, within one run of pytest, until its fault script is as short as possible.

1. Each try is a whole run of the test: set-up, call and tear-down, with fixtures and a world of its own.
2. A try counts only if it fails as the first run did: in the call, with the same type of exception.
3. The last try that failed in this way is reported. The first try is the whole script once more: if the test passes
   then, or something else happens in its world, it depends on more than its seed, and the report says so.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.runner import runtestprotocol

from .shrink import Subset, shrink

if TYPE_CHECKING:
    from .session import SeededRun, SimulationSession

RERUN: Final = "aiostorm-rerun"
_NOTE: Final = "(while it is shrunk)"
"""In the report of a try; replaced by the conclusion."""


class Rerun:
    """Registered in addition to the session by `--simulation-shrink`."""

    def __init__(self, session: SimulationSession) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """In place of pytest's own protocol, for simulated tests."""
        if not self._session.simulates(item):
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in _ShrinkRun(self._session, item, nextitem).reports():
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


class _ShrinkRun:
    """One test, and its tries."""

    def __init__(self, session: SimulationSession, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._session = session
        self._item = item
        self._nextitem = nextitem
        self._run: SeededRun | None = None
        self._best: list[pytest.TestReport] = []
        self._tries = 0

    def reports(self) -> list[pytest.TestReport]:
        """The reports of the first run, if it passes; else of the shortest script with which it still fails."""
        session = self._session
        first = self._try()
        run = self._run
        simulation = run.simulation if run is not None else None
        if run is None or simulation is None or run.failure is None or run.failure[0] != "call":
            return first
        failure, digest = run.failure, run.digest
        script = [i for i in range(len(simulation.faults.drawn)) if run.only is None or i in run.only]
        if not script:
            return first
        only = session.only
        try:
            self._print(f"shrinking {self._item.nodeid}: {len(script)} faults")
            session.note = _NOTE
            if not self._fails(script, failure):
                _conclude(
                    first,
                    "it was run again to shrink it, and did not fail in the same way: it depends on more than its seed",
                    before=True,
                )
                return first
            differs = self._run is not None and self._run.digest != digest
            shrunk = shrink(script, lambda part: self._fails(part, failure))
            text = f"shrunk from {len(script)} faults to {len(shrunk.indices)} in {self._tries} tries"
            if not shrunk.minimal:
                text += "; then it was given up, there may be fewer"
            if differs:
                text += "\ntwo runs of this seed were not the same: something in it depends on more than the seed"
            _conclude(self._best, text)
            return self._best
        finally:
            session.note, session.only = "", only

    def _fails(self, part: Subset | Collection[int], failure: Any) -> bool:
        self._session.only = frozenset(part)
        self._tries += 1
        reports = self._try()
        fails = self._run is not None and self._run.failure == failure
        if fails and self._run is not None:
            self._best = reports
            self._session.files.write(self._run.world, self._item.nodeid)
        self._print(f"  try {self._tries}: {len(part)} faults: {'fails' if fails else 'does not fail'}")
        return fails

    def _try(self) -> list[pytest.TestReport]:
        # The output of the last try does not belong to this report.
        sections: list[Any] = self._item._report_sections
        sections.clear()
        reports = runtestprotocol(self._item, log=False, nextitem=self._nextitem)
        self._run = self._session.run
        return reports

    def _print(self, text: str) -> None:
        terminal: Any = self._item.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            if terminal._tw.width_of_current_line:
                terminal.line("")
            terminal.write_line(text)


def _conclude(reports: list[pytest.TestReport], text: str, *, before: bool = False) -> None:
    """Write it into the report: of a try in place of the note, of the first run at its start."""
    for report in reports:
        for i, (name, text_before) in enumerate(report.sections):
            if name == "simulation":
                report.sections[i] = (name, f"{text}\n{text_before}" if before else text_before.replace(_NOTE, text))
