"""Invariants: what an idle topology must look like, and which bolts keep it from becoming idle."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...acker import AckerActor

if TYPE_CHECKING:
    from ...cluster import RunningTopology

_PACKAGE: Final = f"{Path(__file__).parents[2]}{os.sep}"


def remains(running: RunningTopology) -> list[str]:
    """What an idle topology should not have any more."""
    problems: list[str] = []
    task_set = running._task_set
    pending = running.metrics().pending
    if pending:
        problems.append(f"an idle topology has {pending} open messages")
    for task_id, ref in task_set.refs.items():
        box = task_set.tasks.mailboxes[task_id]
        name = ref.path.rpartition("/")[2]
        if box.gate.fill or box.has_data or box.parked:
            problems.append(f"{name} is idle, and its mailbox holds {box.gate.fill} tuples ({box.parked} senders wait)")
        if not box.gate.is_open:
            problems.append(f"{name} is idle, and the gate of its mailbox is closed")
        actor = ref.cell.supervision.actor
        if isinstance(actor, AckerActor) and len(actor.ledger):
            problems.append(f"{name} is idle, and its ledger has {len(actor.ledger)} rows")
    return problems


def unacked(running: RunningTopology) -> list[str]:
    """Bolts that have executed more tuples than they have acked or failed."""
    lines: list[str] = []
    for name, component in running.metrics().items():
        forgotten = component.executed - component.acked - component.failed
        if component.kind == "bolt" and forgotten > 0:
            lines.append(
                f"bolt {name!r} has executed {component.executed} tuples and neither acked nor failed {forgotten}"
            )
    return lines


def is_users(task: asyncio.Task[Any]) -> bool:
    """Does an asyncio task run a coroutine of the user?

    A topology need not have ended it: an instance that a restart replaced is not notified (semantics.md: `cleanup`),
    nor is one of a topology that fails. A real process cancels it when its loop ends.
    """
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and not code.co_filename.startswith(_PACKAGE)
