"""Parts of a running topology: how it failed, how it ends, and what is known of its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class RunFailure:
    """The task that has failed for good, and its last error. `reported`: has a caller received it?"""

    task: str
    error: BaseException
    reported: bool = False


@dataclass(slots=True)
class RunEnd:
    """The end of the topology, once it has begun. `at_once`: nothing is drained."""

    at_once: bool
    task: asyncio.Task[None] = field(init=False)


@dataclass(slots=True)
class RunInfo:
    """The run of the topology. `started_s`: since 1970. `page_url`: of the page that shows it, or empty.

    `finished`: everything that its spouts had was processed.
    """

    started_s: float
    page_url: Callable[[], str]
    finished: bool = False


class DrainEndedError(Exception):
    """The drain has ended early."""
