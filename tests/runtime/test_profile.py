"""Profiles: stacks that are folded, what fits on a line of a pipe, and a sampled thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.runtime import Profile, Sampler, Stall, StallProfile
from aiostorm.runtime.profile import LINE_BYTES, MAX_FRAMES, MAX_STACKS, StackCounts, frames_of

stacks = st.lists(st.tuples(st.text(max_size=50), st.integers(0, 10**6)), max_size=60).map(tuple)


@given(st.builds(Profile, st.floats(0, 2e9), st.floats(0, 1e6), st.integers(0, 10**9), stacks, st.floats(0, 1e6)))
def test_a_profile_fits_on_a_line_and_the_rarest_stacks_are_left_out(profile: Profile) -> None:
    line = profile.to_line()
    assert len(line.encode()) <= LINE_BYTES
    assert "\n" not in line
    read = Profile.from_line(line)
    assert read.stacks == profile.stacks[: len(read.stacks)]
    assert (read.begun_at_s, read.samples, read.blocked_s) == (profile.begun_at_s, profile.samples, profile.blocked_s)


WRONG = ["", "x", "{}", "[]", "[1,2,3,4,5]", "[1,2,3,[[1]],5]", '["a",2,3,[],5]', "[" * 10_000]


@pytest.mark.parametrize("line", WRONG)
def test_what_is_no_profile_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Profile.from_line(line)


def here(depth: int, then: Callable[[FrameType], None]) -> None:
    if depth:
        here(depth - 1, then)
    else:
        then(sys._getframe())


def test_a_stack_is_bounded_and_says_function_file_and_line() -> None:
    found: list[list[str]] = []
    here(200, lambda frame: found.append(frames_of(frame)))
    [frames] = found
    assert len(frames) == MAX_FRAMES
    assert frames[-1].startswith("here (test_profile.py:")


def test_different_stacks_are_bounded() -> None:
    counts = StackCounts()
    for number in range(MAX_STACKS + 100):
        counts.add(f"task[{number}]", sys._getframe())
    profile = counts.profile(1.0, 2.0)
    assert (profile.samples, len(profile.stacks)) == (MAX_STACKS + 100, MAX_STACKS)


def test_the_profile_of_a_stall_is_shown_at_once_then_as_it_grows_and_a_new_stall_begins_anew() -> None:
    profile, frame = StallProfile(), sys._getframe()

    def stall(blocked_s: float) -> Stall:
        return Stall("/t/count[7]", blocked_s, "f", 1, "g", "h", "")

    shown = [profile.add(stall(1.0 + i / 100), frame) for i in range(60)]
    samples = [each.samples for each in shown if each is not None]
    assert samples[0] == 1
    assert len(samples) == 3
    first = shown[0]
    assert first is not None
    assert first.stacks[0][0].startswith("count[7];")
    again = profile.add(stall(1.0), frame)
    assert again is not None
    assert (again.samples, again.blocked_s) == (1, 1.0)
    assert first.of_component("count").stacks == first.stacks
    assert first.of_component("coun").stacks == ()


@pytest.mark.sockets
async def test_threads_of_blocking_components_are_sampled() -> None:
    over, profiles, done = threading.Event(), list[Profile](), threading.Event()

    def works() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=works, name="aiostorm-count[7]_0")
    thread.start()
    sampler = Sampler(0.2, lambda profile: (profiles.append(profile), done.set())[0])
    sampler.start()
    assert await asyncio.to_thread(done.wait, 20)
    over.set()
    thread.join()
    [profile] = profiles
    assert any(stack.startswith("count[7];") and "works (test_profile.py:" in stack for stack, _ in profile.stacks)
