"""Why the sender holds behind a barrier: the same random worlds with it, with a refusing receiver, and without."""

from __future__ import annotations

import pytest

from .hold_model import HoldModel, Variant

WORLDS = 200


def test_if_the_sender_holds_every_world_finishes_and_every_cut_is_consistent() -> None:
    for seed in range(2 * WORLDS):
        world = HoldModel(seed, Variant.HOLD)
        assert world.run(), f"world {seed} is stuck"
        assert world.is_consistent(), f"world {seed} has an inconsistent cut"
        assert world.is_counted()
        assert not world.lost


def test_snapshots_that_are_given_up_in_the_middle_block_no_task_and_spoil_no_other_snapshot() -> None:
    aborted = taken = 0
    for seed in range(WORLDS):
        world = HoldModel(seed, Variant.HOLD, aborts=True)
        assert world.run(), f"world {seed} is stuck"
        assert world.is_consistent(), f"world {seed} has an inconsistent cut"
        assert world.is_counted()
        # An aligner may report rows behind a barrier before it is notified that this snapshot was given up.
        assert {lost.number for lost in world.lost} <= world.aborted
        aborted += len(world.aborted)
        taken += world.number - len(world.aborted)
    assert aborted >= WORLDS / 3, "the model gives up too few snapshots to show anything"
    assert taken >= WORLDS / 3


def test_a_receiver_that_refuses_gets_stuck_or_takes_inconsistent_cuts() -> None:
    stuck = inconsistent = 0
    for seed in range(WORLDS):
        world = HoldModel(seed, Variant.REFUSE)
        if not world.run():
            stuck += 1
        elif not world.is_consistent():
            inconsistent += 1
    assert stuck >= WORLDS / 10
    assert inconsistent >= WORLDS / 20


def test_without_a_hold_cuts_are_inconsistent_and_the_aligner_reports_each_of_them() -> None:
    inconsistent = 0
    for seed in range(WORLDS):
        world = HoldModel(seed, Variant.NONE)
        assert world.run(), f"world {seed} is stuck"
        assert world.is_consistent() == (not world.lost), f"world {seed}: the aligner and the model do not agree"
        inconsistent += not world.is_consistent()
    assert inconsistent >= WORLDS / 2


@pytest.mark.parametrize("variant", Variant)
def test_a_world_is_decided_by_its_seed(variant: Variant) -> None:
    def cuts(seed: int) -> list[object]:
        world = HoldModel(seed, variant)
        world.run()
        return [task.cuts for task in world.tasks]

    assert cuts(7) == cuts(7)
    assert cuts(7) != cuts(8)
