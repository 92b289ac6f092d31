"""The counts of a cluster of many nodes: what concerns a few of them does not grow with all of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from aiostorm.testing import VirtualTimeLoop
from benchmarks.scale.__main__ import counted, table, table_of_sizes
from benchmarks.scale.counted import Counts
from benchmarks.scale.messages import sizes_of

SMALL, LARGE = 20, 60


@cache
def results() -> dict[int, dict[str, dict[str, Counts]]]:
    found: dict[int, Any] = {}
    for nodes in (SMALL, LARGE):
        with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(max_jumps=10**9, max_steps=10**9)) as runner:
            found[nodes] = runner.run(counted(nodes))
    return found


def reads(nodes: int, event: str, role: str) -> int:
    return results()[nodes][event].get(role, Counts()).reads


def wakes(nodes: int, event: str, role: str) -> int:
    return results()[nodes][event].get(role, Counts()).wakes


def test_at_rest_nothing_is_read_or_written() -> None:
    for nodes in (SMALL, LARGE):
        assert results()[nodes]["at rest"] == {}


def test_what_a_parent_writes_wakes_only_the_nodes_of_its_topology() -> None:
    assert 0 < wakes(SMALL, "its parent writes", "supervisor") <= 11  # the ten workers, and the parent
    assert 0 < wakes(LARGE, "its parent writes", "supervisor") <= 11  # the ten workers, and the parent


def test_an_assignment_wakes_each_node_a_few_times() -> None:
    for nodes in (SMALL, LARGE):
        assert nodes <= wakes(nodes, "submit one", "supervisor") <= 2 * nodes + 40


def test_a_submission_is_written_in_a_few_operations() -> None:
    for nodes in (SMALL, LARGE):
        written = {role: counts.written for role, counts in results()[nodes]["submit one"].items()}
        assert written == {"client": 2, "nimbus": 2, "parent": 5, "supervisor": 0}


def test_nimbus_reads_each_record_once_a_round() -> None:
    topologies, rounds = LARGE // 10 + 1, 5
    assert reads(LARGE, "submit one", "nimbus") <= rounds * (4 + LARGE + 3 * topologies) + 10


@pytest.mark.parametrize("workers", [10, 100])
def test_a_message_that_starts_a_worker_grows_with_all_tasks(workers: int) -> None:
    small, large = sizes_of(workers), sizes_of(2 * workers)
    assert 1.8 < (large.import_bytes + large.connect_bytes) / (small.import_bytes + small.connect_bytes) < 2.2
    assert small.status_bytes == large.status_bytes
    assert (small.links, small.links_of_a_worker) == (workers * (workers - 1) // 2, workers)


def test_the_tables_have_all_events_and_sizes() -> None:
    text = table(results())
    assert text.splitlines()[0] == "| event | role | 20 nodes | 60 nodes | kB read | written |"
    assert "| submit one | supervisor |" in text
    assert table_of_sizes([sizes_of(3)]).splitlines()[2] == "| tasks | 30 |"


def test_the_command_prints_json() -> None:
    command = [sys.executable, "-m", "benchmarks.scale", "--nodes", "10", "--json"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True, timeout=60
    )
    assert '"submit one"' in done.stdout
