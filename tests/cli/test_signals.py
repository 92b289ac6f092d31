"""Ctrl-C and SIGTERM, in real processes: the first drains, the second stops now, whatever user code does."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import sys
from collections.abc import Callable

import pytest

from .conftest import JOBS, Process

Start = Callable[..., Process]

NOISE = ("Traceback", "Exception ignored", "never retrieved", "was destroyed", "CancelledError", "KeyboardInterrupt")

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process"),
]

loops = pytest.mark.parametrize(
    "loop",
    [
        "asyncio",
        pytest.param(
            "uvloop", marks=pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="no uvloop here")
        ),
    ],
)


@loops
@pytest.mark.parametrize(
    ("number", "code", "state"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_first_drains_and_reports(start: Start, loop: str, number: signal.Signals, code: int, state: str):
    process = start("run", f"{JOBS}:endless", "--loop", loop, "--json", "-q")
    process.until_err("under way")  # prints go there with --json
    process.send(number)
    outcome = process.end()
    assert outcome.code == code
    assert "Stopping: no new messages, " in outcome.err
    assert "Press Ctrl-C again to stop now." in outcome.err
    assert f"{state}; pending: nothing\n" in outcome.err
    document = json.loads(outcome.out)
    assert (document["state"], document["problems"]) == (state, [])
    acked = document["messages"]["acked"]
    assert acked >= 4
    assert document["summary"] == {"sum": acked * (acked - 1) // 2}, "the summary so far: every acked number is in it"
    assert not [noise for noise in NOISE if noise in outcome.err], outcome.err


@loops
def test_messages_that_do_not_drain_are_pending(start: Start, loop: str):
    process = start("run", f"{JOBS}:never_acks", "--loop", loop, "-q")
    process.until_out("under way")
    process.send(signal.SIGINT)
    outcome = process.end()
    assert outcome.code == 130
    assert "; pending: " in outcome.err
    assert " of numbers (message ids " in outcome.err
    assert "neither acked nor failed" in outcome.err
    assert "endless interrupted after " in outcome.out
    assert not [noise for noise in NOISE if noise in outcome.err], outcome.err


@loops
@pytest.mark.parametrize("job", ["blocks", "spins", "stuck_thread", "never_acks_for_long"])
def test_second_stops_now(start: Start, loop: str, job: str):
    process = start("run", f"{JOBS}:{job}", "--loop", loop, "-q")
    process.until_out("under way")
    process.send(signal.SIGINT)
    process.until_err("Stopping: ")
    process.send(signal.SIGINT)
    outcome = process.end()
    assert outcome.code == 130
    assert "Stopped now. Pending: " in outcome.err
    assert re.search(r" of numbers \(message ids \d+", outcome.err)
    assert "caught" not in outcome.err, "no user code sees it"
    assert not [noise for noise in NOISE if noise in outcome.err], outcome.err


@pytest.mark.slow
@loops
def test_user_code_that_does_not_end_is_abandoned(start: Start, loop: str):
    process = start("run", f"{JOBS}:stuck_thread", "--loop", loop, "-q")
    process.until_out("under way")
    process.send(signal.SIGTERM)
    outcome = process.end()
    assert outcome.code == 143
    assert "endless terminated after " in outcome.out, "the report comes all the same"
    assert "User code is still running after topology.graceful.stop.secs: it is abandoned." in outcome.err
    assert not [noise for noise in NOISE if noise in outcome.err], outcome.err


def test_interrupt_while_it_starts(start: Start):
    process = start("run", f"{JOBS}:opens_slowly", "-q")
    process.until_out("under way")
    process.send(signal.SIGINT)
    outcome = process.end()
    assert outcome.code == 130
    assert "interrupted after " in outcome.out
    assert not [noise for noise in NOISE if noise in outcome.err], outcome.err


@pytest.mark.slow
def test_exit_codes_of_a_process(start: Start):
    assert start("run", JOBS, "-q").end().code == 0
    assert start("run", f"{JOBS}:dead_letters", "-q").end().code == 1
    outcome = start("run", "no_such_module").end()
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "Error: there is no module no_such_module; it is looked for in the current directory and where Python looks\n"
    )


def test_progress_goes_to_stderr_as_lines_when_it_is_no_terminal(start: Start):
    process = start("run", f"{JOBS}:endless")
    process.until_err(" s  numbers ")
    process.send(signal.SIGINT)
    outcome = process.end()
    assert outcome.code == 130
    assert "  fill sum " in outcome.err
    assert "\x1b" not in outcome.err
