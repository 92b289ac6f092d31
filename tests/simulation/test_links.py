"""Links of several processes under every fault of the network, the disk and the processes, against a model."""

from __future__ import annotations

import pytest

from aiostorm.testing.simulation.faults import FLEET_KINDS

from .links import run
from .planted.links import PLANTED, SEEDS, found_by
from .worlds import printed

QUICK = range(4)


@pytest.mark.parametrize("seed", QUICK)
def test_links_keep_their_promises(seed: int) -> None:
    result = run(seed, last=100)
    assert not result.problems, result.trace
    assert result.messages > 100
    assert result.faults > 0


@pytest.mark.parametrize("kind", FLEET_KINDS)
def test_each_fault_alone(kind: str) -> None:
    result = run(1000, faults=kind, faults_s=20.0, last=100)
    assert not result.problems, result.trace
    assert {fault.kind for fault in result.script} == {kind}


@pytest.mark.slow
@pytest.mark.sockets  # a process of its own, for its hash seed
def test_a_run_depends_neither_on_the_hash_seed_nor_on_memory_addresses() -> None:
    program = (
        "from tests.simulation.links import run\n"
        "filling = [[object() for _ in range(100 * n)] for n in range(50)]\n"
        "del filling[::2]\n"
        "print(run(9).digest)"
    )
    assert printed(program) == run(9).digest + "\n"


def test_seeds_differ() -> None:
    assert run(1, faults_s=5.0).digest != run(2, faults_s=5.0).digest


FIRST_LOOK = {
    "an_old_incarnation_is_accepted": 1,
    "an_ack_counts_a_frame_that_was_not_received": 2,
    "no_acknowledgement_is_requested": 9,
    "no_replay_after_a_reconnect": 4,
    "a_replay_starts_one_too_late": 4,
    "a_send_buffer_without_a_bound": 1,
    "a_writer_that_does_not_look": 19,
    "a_new_incarnation_continues_the_count": 1,
    "a_new_incarnation_gets_the_frames_of_the_last_one": 1,
    "a_new_incarnation_acknowledges_for_the_last_one": 1,
    "parts_are_mixed_up": 2,
    "the_last_parts_are_forgotten_after_a_reconnect": 2,
    "a_sync_that_does_not_wait": 2,
}
"""Seeds that find what the first does not: a hint, which saves time."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    result = found_by(PLANTED[name], first=FIRST_LOOK.get(name, 0))
    assert result is not None, f"{SEEDS} seeds do not find it"
