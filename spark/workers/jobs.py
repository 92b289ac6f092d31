"""Slot jobs: one ordinary Spark job of one task for each incarnation of a worker, in its own job group and thread.

    start ─► thread: session ─► setJobGroup ─► a job of one task: the slot … ─► on_end(outcome), in the event loop
    cancel ─► cancelJobGroupAndFutureJobs: also a job that its thread has not started yet

1. Not a job of n tasks, and no barrier: the end of one worker does not affect the others.
2. The task's closure has a function by value (without an importable name) and plain values. It reports itself if the
   executor has no aiostorm, or another version.
3. A task's second attempt returns at once: Spark's retry would be an unwanted worker. So the first attempt raises
   nothing: its errors are its result.
4. The thread is a daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...runtime import AiostormError
from ..errors import SparkLostError
from ..needs import version
from ..sessions import SessionLease, alive, brief

log = logging.getLogger("aiostorm.spark")


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """How a job has ended. `code`: the worker's exit code. `why`: the reason, if the worker did not end by itself.

    `final`: another job would end the same way.
    """

    code: int
    why: str = ""
    final: AiostormError | None = None


class SlotJobs:
    """Starts and cancels slot jobs in the session of a lease."""

    def __init__(self, lease: SessionLease) -> None:
        self._lease = lease
        self._session: Any = None
        self._cancelled: set[str] = set()

    def start(
        self, group: str, description: str, spec: Mapping[str, Any], on_end: Callable[[SlotOutcome], None]
    ) -> None:
        """Start a job. Does not block; `on_end` is called in the event loop."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            outcome = self._run(group, description, spec)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(on_end, outcome)

        threading.Thread(target=run, name=group, daemon=True).start()

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group, and those that its thread may still start. Blocking."""
        self._cancelled.add(group)
        if self._session is not None:
            context = self._session.sparkContext._jsc.sc()
            # Spark 3.5 has no such call: there the slot of a later job ends itself, since the parent does not want it.
            (context.cancelJobGroupAndFutureJobs if version() >= (4, 0) else context.cancelJobGroup)(group)

    def _run(self, group: str, description: str, spec: Mapping[str, Any]) -> SlotOutcome:
        try:
            session = self._session = self._lease.get()
            if group in self._cancelled:
                return SlotOutcome(1, "it was cancelled")
            if not alive(session):
                raise SparkLostError(
                    "the Spark session has ended: give SparkWorkers settings or a function, and it makes another"
                )
            context = session.sparkContext
            context.setJobGroup(group, description, interruptOnCancel=True)
            [text] = context.parallelize([0], 1).mapPartitions(_task(dict(spec), f"{__package__}.slot")).collect()
        except AiostormError as error:
            return SlotOutcome(1, str(error), error)
        except BaseException as error:
            log.debug("%s has ended", group, exc_info=True)
            return SlotOutcome(1, "it was cancelled" if group in self._cancelled else brief(error))
        finally:
            self._cancelled.discard(group)
        report = json.loads(text)
        return SlotOutcome(report["code"], report["why"])


def _task(spec: dict[str, Any], module: str) -> Callable[[Iterator[Any]], Iterator[str]]:
    """The function of the task. It is pickled by value, since it is a local function, and imports aiostorm itself."""

    def slot(rows: Iterator[Any]) -> Iterator[str]:
        import importlib
        import json

        for _ in rows:  # Spark does not reuse a Python worker that has not read its input
            pass
        context = importlib.import_module("pyspark").TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            return iter([json.dumps({"code": 1, "why": "the task was lost: its executor or its Python has died"})])
        # Not raised: Spark would retry, and its second attempt would hide the first error.
        try:
            report = importlib.import_module(module).run_slot(spec)
        except ImportError as error:
            why = f"an executor cannot import {module} ({error}): install aiostorm {spec['version']} there"
            report = {"code": 1, "why": f"{why}, or let SparkWorkers(ship=True) bring it"}
        except Exception as error:
            report = {"code": 1, "why": f"{type(error).__name__}: {error}"}
        return iter([json.dumps(report)])

    return slot
