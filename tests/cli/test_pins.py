"""Components on labelled nodes, and isolation, on the command line."""

from __future__ import annotations

from .cluster_store import Store, filled
from .conftest import Command
from .test_cluster import home, store

__all__ = ["home", "store"]


def test_pins_are_ordered(aiostorm: Command, store: Store) -> None:
    filled(store)
    store.lead()
    pins = ("--pin", "detect=gpu", "--pin", "detect=eu=1", "--pin", "save=disk", "--isolate-machines", "2")
    outcome = aiostorm("submit", "a:b", "--name", "images", "--no-check", *pins, "--wait", "0")
    assert outcome.code == 0
    found = store.topology("images")
    assert found is not None
    assert found.pins == {"detect": frozenset({"gpu", "eu=1"}), "save": frozenset({"disk"})}
    assert found.config == {"topology.isolate.machines": 2}
    assert aiostorm("rebalance", "images", "--pin", "save=", "--no-check", "--wait", "0").code == 0
    found = store.topology("images")
    assert found is not None
    assert found.pins == {"detect": frozenset({"gpu", "eu=1"})}
    (line,) = [line for line in aiostorm("list").out.splitlines() if line.startswith("images")]
    assert "2 nodes of its own are needed" in line
    for given in ("detect", "=gpu"):
        outcome = aiostorm("rebalance", "images", "--pin", given)
        assert outcome.code == 2
        assert f"{given!r} is not COMPONENT=LABEL, as in detect=gpu" in outcome.err
    outcome = aiostorm("rebalance", "images", "--pin", f"detect={'x' * 101}", "--no-check")
    assert outcome.code == 2
    assert "a label has 1 to 100 printable characters" in outcome.err


def test_a_pin_of_no_component_is_refused(aiostorm: Command, store: Store) -> None:
    store.lead()
    outcome = aiostorm("submit", "examples.word_count:topology", "--pin", "cuont=gpu", "--wait", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no component 'cuont' to be pinned: there are" in outcome.err
    assert "count" in outcome.err
