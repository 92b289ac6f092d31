"""Profile: where threads of this process are, looked at a hundred times a second: folded stacks, for a flame graph.

    thread ─ 100 × a second ─► sys._current_frames() ─► stack, from user code inwards ─► counted ─► Profile

1. It is on demand, or while the event loop stalls (stall.py): otherwise nothing is sampled, and it costs nothing.
2. A stack begins where the framework calls user code: what is above is the same for all. A frame is
   `function (file:line)`.
3. Stacks, their depth and their text are bounded: a recursion does not fill the memory, nor the pipe.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Final

from .user_files import is_ours

if TYPE_CHECKING:
    from .stall import Stall

PERIOD_S: Final = 0.01

EACH_S: Final = 0.25
"""While a stall lasts, its profile is shown so often."""

MAX_STACKS: Final = 500
MAX_FRAMES: Final = 60
MAX_FRAME_CHARS: Final = 120

LINE_BYTES: Final = 4000
"""What is written to a pipe at once is not mixed with what others write, up to this."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The stacks of one process: (frames, from the outermost on, joined by ";"; how often it was seen).

    The first frame is the task. `begun_at_s`: seconds since 1970. `seconds`: how long was sampled. `blocked_s`: for so
    long the event loop has been blocked; 0.0: a user asked for the profile. That of a stall grows while it lasts.
    """

    begun_at_s: float
    seconds: float
    samples: int
    stacks: tuple[tuple[str, int], ...]
    blocked_s: float = 0.0
    worker: str = ""

    def of_component(self, component: str) -> Profile:
        """Only its tasks."""
        stacks = tuple(each for each in self.stacks if each[0].partition(";")[0].rpartition("[")[0] == component)
        return replace(self, stacks=stacks)

    def within(self, size_bytes: int) -> Profile:
        """Without the rarest stacks, if their text is larger than that."""
        left, kept = size_bytes, 0
        for stack, _ in self.stacks:
            left -= len(stack.encode("utf-8", "replace")) + 16
            if left < 0:
                break
            kept += 1
        return self if kept == len(self.stacks) else replace(self, stacks=self.stacks[:kept])

    def to_line(self) -> str:
        """One line of at most LINE_BYTES; without the rarest stacks, if there are too many."""
        stacks = list(self.stacks)
        while True:
            line = json.dumps([self.begun_at_s, self.seconds, self.samples, stacks, self.blocked_s])
            if len(line) <= LINE_BYTES or not stacks:
                return line
            stacks = stacks[: len(stacks) // 2]

    @classmethod
    def from_line(cls, line: str) -> Profile:
        """What `to_line` has made. ValueError for anything else."""
        try:
            begun_at_s, seconds, samples, stacks, blocked_s = json.loads(line)
            counted = tuple((str(stack), int(count)) for stack, count in stacks)
            return cls(float(begun_at_s), float(seconds), int(samples), counted, float(blocked_s))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no profile: {error}") from error


class StackCounts:
    """Stacks that are counted. Pure, but for the frames that it reads."""

    def __init__(self) -> None:
        self.samples = 0
        self._counts: Counter[str] = Counter()

    def add(self, task: str, frame: FrameType) -> None:
        """A thread was seen here."""
        self.samples += 1
        stack = ";".join([clean(task), *frames_of(frame)])
        if stack in self._counts or len(self._counts) < MAX_STACKS:
            self._counts[stack] += 1

    def profile(self, begun_at_s: float, seconds: float, blocked_s: float = 0.0) -> Profile:
        """What was counted so far, the most frequent first."""
        return Profile(begun_at_s, seconds, self.samples, tuple(self._counts.most_common()), blocked_s)


class StallProfile:
    """The profile of the stall that lasts, which grows with each sample."""

    def __init__(self) -> None:
        self._counts = StackCounts()
        self._begun_at_s = self._begun_s = self._last_s = 0.0

    def add(self, stall: Stall, frame: FrameType) -> Profile | None:
        """A sample. The profile so far, if it is the first one or EACH_S have passed since the last."""
        blocked_s = stall.blocked_s
        if not self._counts.samples or blocked_s < self._last_s:  # another stall
            self._counts = StackCounts()
            self._begun_at_s, self._begun_s, self._last_s = time.time(), blocked_s, 0.0
        self._counts.add(short_name(stall.task), frame)
        if blocked_s - self._last_s < EACH_S:
            return None
        self._last_s = blocked_s
        return self._counts.profile(self._begun_at_s, blocked_s - self._begun_s, blocked_s)


def frames_of(frame: FrameType) -> list[str]:
    """The frames of user code and of what it calls, the outermost first; if there are none, those of the framework."""
    found: list[tuple[str, bool]] = []
    here: FrameType | None = frame
    while here is not None and len(found) < 10 * MAX_FRAMES:
        code = here.f_code
        name = code.co_filename.replace("\\", "/").rpartition("/")[2]
        found.append((clean(f"{code.co_qualname} ({name}:{here.f_lineno})"), is_ours(code.co_filename)))
        here = here.f_back
    first = next((at for at, (_, ours) in enumerate(found) if ours), len(found))  # the innermost of the framework
    if first == 0:  # the framework itself, perhaps called by user code
        first = next((at for at, (_, ours) in enumerate(found) if not ours), len(found))
        return [text for text, _ in reversed(found[: first + 1][:MAX_FRAMES])]
    return [text for text, _ in reversed(found[:first][:MAX_FRAMES])]


def clean(text: str) -> str:
    """A frame as it may be in a stack."""
    return text.replace(";", ":")[:MAX_FRAME_CHARS]


class Sampler:
    """Samples the loop's thread, and those of blocking components, for some seconds, in a thread of its own.

    `done` is called in the sampling thread with the profile, at the end; not if it was stopped.
    """

    def __init__(self, seconds: float, done: Callable[[Profile], None]) -> None:
        self._seconds = seconds
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aiostorm-profile", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """End it earlier."""
        self._over.set()

    def _run(self) -> None:
        counts = StackCounts()
        begun_at_s, begun_s = time.time(), time.monotonic()
        while time.monotonic() - begun_s < self._seconds and not self._over.wait(PERIOD_S):
            for name, frame in self._frames():
                counts.add(name, frame)
        if not self._over.is_set():
            self._done(counts.profile(begun_at_s, time.monotonic() - begun_s))

    def _frames(self) -> list[tuple[str, FrameType]]:
        """(task, where it is) of each thread that works for a topology."""
        frames = sys._current_frames()
        found = []
        task = None if self._loop.is_closed() else asyncio.current_task(self._loop)
        if task is not None and self._loop_thread in frames:  # without a task the loop waits
            found.append((short_name(task.get_name()), frames[self._loop_thread]))
        for thread in threading.enumerate():
            if thread.name.startswith("aiostorm-") and "[" in thread.name and thread.ident in frames:
                frame = frames[thread.ident]
                if not is_idle(frame):
                    found.append((thread.name.removeprefix("aiostorm-").partition("]")[0] + "]", frame))
        return found


def short_name(task: str) -> str:
    """`count[7]` of the asyncio task `/topology/count[7]: …`."""
    return task.rpartition("/")[2].partition(":")[0]


def is_idle(frame: FrameType) -> bool:
    """Does the thread of a pool wait for work?"""
    return frame.f_code.co_filename.replace("\\", "/").endswith(("concurrent/futures/thread.py", "lib/queue.py"))
