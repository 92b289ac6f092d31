"""Frames: the traceback of an error as its author needs it: lines of user code, not of the framework around it.

1. Frames of aiostorm are left out, and those of asyncio and of threads that lead to user code.
2. An error in the chain that has only frames of aiostorm is left out, too, unless it is the one that was raised.
3. An error from code of aiostorm alone is shown with its innermost frame; an AiostormError without any: its text is
   enough.
4. The error itself is not changed: it may be of the user's own class, and one object may be raised many times.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from traceback import StackSummary, TracebackException
from typing import Final

from ..runtime import AiostormError

PACKAGE: Final = __name__.partition(".")[0]

PLUMBING: Final = ("asyncio", "concurrent")


def own_frames(error: BaseException) -> str:
    """What Python would print for an error, with the frames of user code only; empty if the message is enough."""
    # Compact: without the text of a suppressed context, which may take long (Spark's errors ask the JVM).
    shown = TracebackException.from_exception(error, compact=True)
    ours, plumbing = _files(error)
    _strip(shown, ours, plumbing)
    if shown.stack or shown.__cause__ is not None or shown.__context__ is not None or _parts(shown):
        return "".join(shown.format()).rstrip()
    if isinstance(error, AiostormError):
        return ""
    shown.stack = StackSummary.from_list(traceback.extract_tb(error.__traceback__)[-1:])
    return "".join(shown.format() if shown.stack else shown.format_exception_only()).rstrip()


def _strip(shown: TracebackException, ours: set[str], plumbing: set[str]) -> None:
    """Leave out the frames that are not the user's, in the whole chain."""
    kept = [frame for frame in shown.stack if frame.filename not in ours]
    while kept and kept[0].filename in plumbing:
        del kept[0]
    shown.stack[:] = kept
    for part in _parts(shown):
        _strip(part, ours, plumbing)
    for link in ("__cause__", "__context__"):
        earlier: TracebackException | None = getattr(shown, link)
        if earlier is not None:
            _strip(earlier, ours, plumbing)
            if not (earlier.stack or earlier.__cause__ or earlier.__context__ or _parts(earlier)):
                setattr(shown, link, None)


def _parts(shown: TracebackException) -> list[TracebackException]:
    """The exceptions of a group."""
    return shown.exceptions or []


def _files(error: BaseException) -> tuple[set[str], set[str]]:
    """The source files of aiostorm's frames in the chain of an error, and those of asyncio and of threads."""
    ours: set[str] = set()
    plumbing: set[str] = set()
    for one in _chain(error):
        for frame, _ in traceback.walk_tb(one.__traceback__):
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if package == PACKAGE:
                ours.add(frame.f_code.co_filename)
            elif package in PLUMBING:
                plumbing.add(frame.f_code.co_filename)
    return ours, plumbing


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes and contexts, and the parts of groups, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
