"""Where does each asyncio task wait? For messages about loops that do not move any more.

A suspended coroutine knows what it awaits (`cr_await`, `gi_yieldfrom`, `ag_await`): following that chain inwards from
the task's own coroutine gives the stack that `Task.get_stack()` does not (it shows the outermost frame only). Some
awaitables of CPython (for `async for`, `anext`, `__await__`) do not expose what they wrap; the garbage collector does.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import linecache
from types import FrameType
from typing import Any

_WRAPPERS = ("async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper")
_SHOWN_TASKS = 100
_SHOWN_FRAMES = 8


def pending_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """One paragraph per asyncio task that is not done: its name and the lines where it waits, innermost last."""
    tasks = sorted((t for t in asyncio.all_tasks(loop) if not t.done()), key=_by_name)
    if not tasks:
        return "  (no asyncio task is pending)"
    shown = [describe(task) for task in tasks[:_SHOWN_TASKS]]
    if len(tasks) > _SHOWN_TASKS:
        shown.append(f"  … and {len(tasks) - _SHOWN_TASKS} more")
    return "\n".join(shown)


def describe(task: asyncio.Task[Any]) -> str:
    """One asyncio task and the lines where it waits."""
    frames = await_chain(task.get_coro())
    if not frames:
        return f"  {task.get_name()} has not started"
    hidden = len(frames) - _SHOWN_FRAMES
    lines = [f"  {task.get_name()} waits at"]
    if hidden > 0:
        lines.append(f"    … {hidden} outer frames")
        frames = frames[hidden:]
    lines += [f"    {frame_line(frame)}" for frame in frames]
    return "\n".join(lines)


def await_chain(awaited: Any) -> list[FrameType]:
    """The frames of a suspended coroutine, from its own to the innermost that it awaits; empty if not started."""
    frames: list[FrameType] = []
    while awaited is not None:
        frame, inner = _look_into(_unwrap(awaited))
        if frame is None:
            break
        frames.append(frame)
        awaited = inner if inner is not None else _driven_by(frame)
    return [] if len(frames) == 1 and frames[0].f_lasti < 0 else frames


def frame_line(frame: FrameType) -> str:
    """File, line, function and source text of a frame, as a traceback shows them."""
    code = frame.f_code
    text = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
    where = f'File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}'
    return f"{where}: {text}" if text else where


def _look_into(awaited: Any) -> tuple[FrameType | None, Any]:
    if inspect.iscoroutine(awaited):
        return awaited.cr_frame, awaited.cr_await
    if inspect.isgenerator(awaited):
        return awaited.gi_frame, awaited.gi_yieldfrom
    if inspect.isasyncgen(awaited):
        return awaited.ag_frame, awaited.ag_await
    return None, None


def _unwrap(awaited: Any) -> Any:
    while type(awaited).__name__ in _WRAPPERS:
        inner = [o for o in gc.get_referents(awaited) if type(o).__name__ in _WRAPPERS or _look_into(o)[0] is not None]
        if not inner:
            return None
        awaited = inner[0]
    return awaited


def _driven_by(frame: FrameType) -> Any:
    """A generator that steps a coroutine by hand (tasks/drive.py) has no `gi_yieldfrom`: the coroutine is its local."""
    work = frame.f_locals.get("work") if frame.f_code.co_name == "drive" else None
    return work if inspect.iscoroutine(work) and work.cr_frame is not frame else None


def _by_name(task: asyncio.Task[Any]) -> tuple[str, int]:
    # Task-10 after Task-9.
    name, _, number = task.get_name().rpartition("-")
    return (name, int(number)) if number.isdecimal() else (task.get_name(), -1)
