"""Run: one topology on this machine, until it is finished or stopped.

    submit ─► watch (progress) ─┬─ finished ────────────────────► results ─► summary ─► stop
                                ├─ interrupted, timed out ─► drain ─► results ─► summary ─► stop
                                └─ failed ──────────────────────────────────────────────► stop

1. A bounded topology ends by itself; any other runs until Ctrl-C, SIGTERM or `timeout_s`.
2. Draining is bounded by the message timeout: messages that are still pending then are reported.
3. The RunReport is complete before anything is printed; errors while it is made are among its problems.
4. What cannot begin because of its snapshots (no such snapshot, a folder that cannot be one) is a CommandError.
5. Exit codes: 0 all was processed; 1 the topology failed, or a message was not processed; 130 and 143 interrupted
   (SIGINT, SIGTERM); 124 timed out, as in timeout(1).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..cluster import LocalCluster, ReportError, RunningTopology, State, TopologyFailedError
from ..metrics import TopologyMetrics
from ..runtime import AiostormError, StorePlaceError
from ..state import StateError
from .errors import CommandError
from .pressure import paced_text
from .progress import Display, Rates, starting_text
from .report import RunReport, continues_text, pending_text, snapshots_text

if TYPE_CHECKING:
    from pathlib import Path

    from ..backpressure import Backpressure
    from ..cluster import ClusterPage, ControlSocket, Report, Restore, WorkerBackend
    from ..topology import Config, Topology
    from .signals import Interrupts

log = logging.getLogger("aiostorm.cli")

RESULTS_S = 2.0
"""Seconds to wait for the results of an interrupted topology: user code of a bolt may be stuck."""

INTERRUPTED = ("interrupted", "terminated", "timed out")

REFUSED = "refused"
"""The state of a run that cannot begin: another try would meet the same."""

TIMED_OUT = 124


@dataclass(frozen=True, slots=True)
class Job:
    """The topology to run, and how."""

    name: str
    topology: Topology
    config: Config
    timeout_s: float | None = None
    worker_plan: WorkerPlan | None = None
    control: bool = False
    """Can `aiostorm update` and `aiostorm pressure` find it?"""
    restore: Restore = "latest"
    """The snapshot to begin with (exactly once)."""
    repeat_output: bool = False
    """May sinks write rows again that they have committed?"""
    page: ClusterPage | None = None
    """What shows the topology in a browser."""
    report: Path | None = None
    """Where to write an HTML report of the run."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The workers to run on, and how they connect. `remote`: how many of them are started on other machines."""

    target: str
    arguments: tuple[str, ...]
    workers: int
    remote: int
    backend: WorkerBackend
    print_remote: Callable[[str, Sequence[str]], None]
    """Called with the address and the names of remote workers when these can be started."""
    abandon: Callable[[], None]
    """Removes files of the worker backend when the process ends at once."""


async def run(job: Job, display: Display, interrupts: Interrupts, done: Callable[[RunReport], None]) -> RunReport:
    """Run a topology to its end. Never raises because of the topology: the report contains its errors.

    CommandError if nothing was started, because of the snapshots that it was to begin with. `done` is called
    with the report before the cluster is closed, which user code may delay.
    """
    loop = asyncio.get_running_loop()
    stop = interrupts.listen()
    timer = loop.call_later(job.timeout_s, stop.set) if job.timeout_s is not None else None
    started_s = loop.time()
    cluster = _cluster(job.worker_plan, job.page)
    try:
        async with contextlib.AsyncExitStack() as stack:
            if not await _started(cluster, stop, None if job.worker_plan is None else display):
                report = _report_not_started(job, interrupts, loop.time() - started_s)
                done(report)
                return report
            stack.push_async_exit(cluster)
            if job.worker_plan is not None and job.worker_plan.remote:
                job.worker_plan.print_remote(cluster.address, cluster.remote_names)
            session = _Session(job, cluster, display, interrupts, stop, started_s)
            report = await session.run()
            if report.state == REFUSED:
                raise CommandError("; ".join(report.problems))
            done(report)
            return report
    finally:
        if timer is not None:
            timer.cancel()


async def _started(cluster: LocalCluster, stop: asyncio.Event, display: Display | None) -> bool:
    """Start the cluster; False if it is stopped before. `display` shows a slow start, as of a Spark session."""
    loop = asyncio.get_running_loop()

    async def give_up(limit: asyncio.Timeout) -> None:
        await stop.wait()
        limit.reschedule(loop.time())

    failure: Exception | None = None
    try:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            tasks = [group.create_task(give_up(limit))]
            if display is not None:
                tasks.append(group.create_task(_show_starting(display)))
            try:
                await cluster.start()
            except Exception as error:
                failure = error  # raised as it is, not as an exception group
            for task in tasks:
                task.cancel()
    except TimeoutError:
        return False
    if failure is not None:
        raise failure
    return True


async def _show_starting(display: Display) -> None:
    loop = asyncio.get_running_loop()
    rates = Rates(loop.time())
    with display:
        while True:
            await asyncio.sleep(display.interval_s)
            display.show(rates.snapshot(TopologyMetrics(()), loop.time(), starting="starting workers"))


def _report_not_started(job: Job, interrupts: Interrupts, elapsed_s: float) -> RunReport:
    """The report of a run that was stopped before the topology started."""
    return RunReport(job.name, _stopped_by(interrupts), elapsed_s, TopologyMetrics(()))


def _stopped_by(interrupts: Interrupts) -> str:
    """The state of a stopped run: by a signal, or by its time limit."""
    if interrupts.signal is None:
        return "timed out"
    return "terminated" if interrupts.signal.name == "SIGTERM" else "interrupted"


def _cluster(plan: WorkerPlan | None, page: ClusterPage | None) -> LocalCluster:
    if plan is None:
        return LocalCluster(ui=page)
    return LocalCluster(workers=plan.workers, remote_workers=plan.remote, backend=plan.backend, ui=page)


def exit_code(report: RunReport, interrupts: Interrupts) -> int:
    """The exit code of a run (see the module)."""
    if report.state in INTERRUPTED:
        return TIMED_OUT if report.state == "timed out" else interrupts.exit_code
    return 1 if report.problems else 0


class _Session:
    """One run of a topology."""

    def __init__(
        self,
        job: Job,
        cluster: LocalCluster,
        display: Display,
        interrupts: Interrupts,
        stop: asyncio.Event,
        started_s: float,
    ) -> None:
        self._job = job
        self._cluster = cluster
        self._display = display
        self._interrupts = interrupts
        self._stop = stop
        self._started_s = started_s
        self._loop = asyncio.get_running_loop()
        self._running: RunningTopology | None = None
        self._problems: list[str] = []
        interrupts.first_message = self._first_message
        interrupts.last_message = self._last_message
        self._control: ControlSocket | None = None
        self._serving: asyncio.Task[None] | None = None
        self._file: Report | None = None
        interrupts.before_end = self._abandon

    async def run(self) -> RunReport:
        """Run the topology to its end."""
        with self._display:
            async with asyncio.TaskGroup() as group:
                progress = group.create_task(self._show_progress())
                state = await self._wait_for_end(group)
                drained = state == "finished" or (state in INTERRUPTED and await self._drain())
                results = await self._results()
                elapsed_s = self._loop.time() - self._started_s
                pressure = self._running.backpressure() if self._running is not None else None
                progress.cancel()
                if self._serving is not None:
                    self._serving.cancel()
            pending = self._running.pending() if self._running is not None else {}
            await self._end(at_once=not drained)
            await self._write_file()
        return self._report(state, elapsed_s, results, pending, pressure)

    @property
    def _alive(self) -> bool:
        return self._running is not None and self._running.state in (State.ACTIVE, State.INACTIVE)

    async def _wait_for_end(self, group: asyncio.TaskGroup) -> str:
        """Submit, then wait until the topology is finished, failed or stopped; returns which."""
        finishing = group.create_task(self._finish())
        stopping = group.create_task(self._stop.wait())
        await asyncio.sleep(0)  # let `submit` begin: the topology can be inspected if its start fails
        self._running = self._cluster.topologies.get(self._job.name)
        if self._job.control and self._running is not None:
            from ..cluster import ControlSocket

            self._control = ControlSocket(self._running)
            self._serving = group.create_task(self._control.serve())
        if self._job.report is not None and self._running is not None:
            self._file = self._running.report(self._job.report)
            await self._file.__aenter__()
        await asyncio.wait((finishing, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if finishing.done():
            return finishing.result()
        finishing.cancel()
        await asyncio.wait((finishing,))
        return _stopped_by(self._interrupts)

    async def _finish(self) -> str:
        job = self._job
        try:
            if job.worker_plan is None:
                running = await self._cluster.submit(
                    job.name, job.topology, job.config, restore=job.restore, repeat_output=job.repeat_output
                )
            else:
                plan = job.worker_plan
                running = await self._cluster.submit(
                    job.name,
                    plan.target,
                    job.config,
                    arguments=plan.arguments,
                    restore=job.restore,
                    repeat_output=job.repeat_output,
                )
            await running.wait_finished()
        except AiostormError as error:
            self._problems.append(str(error))
            cannot_begin = isinstance(error, StorePlaceError) or (isinstance(error, StateError) and error.final)
            return REFUSED if cannot_begin else "failed"
        return "finished"

    async def _drain(self) -> bool:
        """Stop the spouts and wait at most the message timeout for messages in flight. True if all are finished."""
        if self._running is None or not self._alive:
            return False
        limit_s = self._job.config.message_timeout_s
        try:
            await self._running.drain(limit_s)
            return True
        except TimeoutError:
            self._display.print_line(f"Not drained within {limit_s:g} s (topology.message.timeout.secs).")
        except AiostormError as error:
            self._problems.append(str(error))
        return False

    async def _results(self) -> Mapping[str, Sequence[Any]] | None:
        if self._running is None or not self._alive:
            return None
        try:
            async with asyncio.timeout(RESULTS_S if self._stop.is_set() else None):
                return await self._running.results()
        except TimeoutError:
            self._problems.append(f"no results: not available after {RESULTS_S:g} s")
        except Exception as error:  # from a component's own `result`
            log.debug("no results", exc_info=error)
            self._problems.append(f"no results: {type(error).__name__}: {error}")
        return None

    async def _write_file(self) -> None:
        if self._file is not None:
            try:
                await self._file.__aexit__(None, None, None)
            except ReportError as error:
                self._problems.append(str(error))

    async def _end(self, *, at_once: bool) -> None:
        if self._running is None:
            return
        limit_s = self._job.config.graceful_stop_s if at_once else None
        try:
            async with asyncio.timeout(limit_s):
                await self._running.kill(0 if at_once else None)
            await self._running.wait_ended()
            self._problems += map(str, self._running.problems)
        except TimeoutError:
            self._problems.append(f"user code was still running {limit_s:g} s after the stop")
        except TopologyFailedError as error:  # already known, or it failed while it ended
            self._problems.append(str(error))

    def _report(
        self,
        state: str,
        elapsed_s: float,
        results: Mapping[str, Sequence[Any]] | None,
        pending: Mapping[str, Sequence[Any]],
        pressure: Backpressure | None,
    ) -> RunReport:
        running, topology = self._running, self._job.topology
        summary: Mapping[str, Any] | str | None = None
        if topology.summary is not None and results is not None:
            try:
                made: Any = topology.summary({component: list(parts) for component, parts in results.items()})
                if isinstance(made, Mapping | str):
                    summary = made
                else:
                    kind = type(made).__name__
                    self._problems.append(f"the topology's summary returned a {kind}: return names and values, or text")
            except Exception as error:
                log.debug("no summary", exc_info=error)
                self._problems.append(f"the topology's summary raised {type(error).__name__}: {error}")
        report = RunReport(
            topology=self._job.name,
            state=state,
            elapsed_s=elapsed_s,
            metrics=running.metrics() if running is not None else TopologyMetrics(()),
            results=results or {},
            summary=summary,
            pending=pending,
            errors=tuple(running.errors()) if running is not None else (),
            pressure=pressure,
            paced="" if pressure is None else paced_text(pressure),
            snapshots=running.snapshot_metrics if running is not None else None,
        )
        return replace(report, problems=tuple(dict.fromkeys([*self._problems, *report.lost()])))

    # -- progress and messages ---------------------------------------------------------------------------------------

    async def _show_progress(self) -> None:
        rates = Rates(self._started_s)
        while True:
            await asyncio.sleep(self._display.interval_s)
            running = self._running
            if running is not None:
                paced = paced_text(running.backpressure())
                starting = starting_text(running.workers()) if running.state is State.STARTING else ""
                status = running.snapshot_metrics
                taken = "" if status is None else snapshots_text(status, running=True)
                self._display.show(rates.snapshot(running.metrics(), self._loop.time(), paced, starting, taken))

    def _abandon(self) -> None:
        """The process ends now: remove its files."""
        if self._control is not None:
            self._control.abandon()
        if self._job.worker_plan is not None:
            self._job.worker_plan.abandon()

    def _first_message(self) -> str:
        if self._running is not None and self._running.snapshot_metrics is not None:
            work = "no new rows, what was emitted is processed, and a last snapshot is taken"
        else:
            pending = self._running.metrics().pending if self._running is not None else 0
            work = f"no new messages, {pending:,} in flight are drained"
        return f"Stopping: {work}. Press Ctrl-C again to stop now."

    def _last_message(self) -> str:
        if self._running is not None and self._running.snapshot_metrics is not None:
            return f"Stopped now: {continues_text(self._running.snapshot_metrics)}."
        pending = self._running.pending() if self._running is not None else {}
        return f"Stopped now. Pending: {pending_text(pending)}."
