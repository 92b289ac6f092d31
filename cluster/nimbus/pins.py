"""Pins: components whose tasks run only on nodes with certain labels. Pure.

    pins: detect → gpu                     nodes: a, b (gpu), c
    plan ─► workers on a, b: at least one on a node for each pin ─► labels of the workers: -, gpu
    the parent ─► tasks of detect: only in the second worker; those of other components: in any
    b is lost ─► the second worker moves to another node with gpu, or waits for one

1. Each pin finds a worker whose node has all its labels; or the topology waits.
2. What a worker may run is decided when it is placed, and is kept in the assignment. So a worker that moves without a
   rebalance goes only where that stays true, and its parent need not place the tasks anew.
3. Labels count when a worker is placed, and when it moves. One whose node loses a label stays until the next rebalance,
   as with the labels of a whole topology.

From: the node labels of YARN and the required node affinity of Kubernetes, which is ignored during execution. Storm has
generic resources of components instead (`addResource`), JStorm assignments by host name (`WorkerAssignment`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .records import TopologyRecord

MAX_PINNED_LABELS: Final = 8
"""The most different sets of labels in the pins of a topology: it is looked for nodes for all combinations."""

MAX_LABEL_CHARS: Final = 100

MAX_PINS: Final = 1_000


class Candidate(NamedTuple):
    """A node with a free slot. `cost`: it is rather not used, the more the higher."""

    on: str
    labels: frozenset[str]
    cost: int = 0


class Pins:
    """The pins of one topology. `groups`: their different sets of labels; `named`: all labels in them."""

    def __init__(self, topology: TopologyRecord | None) -> None:
        pins: Mapping[str, frozenset[str]] = {} if topology is None else topology.pins
        self._pins = pins
        self.groups = sorted({labels for labels in pins.values() if labels}, key=sorted)
        self.named: frozenset[str] = frozenset().union(*self.groups)

    def __bool__(self) -> bool:
        """Are there any?"""
        return bool(self.groups)

    def missing(self, had: Iterable[frozenset[str]]) -> list[frozenset[str]]:
        """The groups for which none of these workers is, by their labels."""
        there = set(had)
        return [group for group in self.groups if not any(group <= labels for labels in there)]

    def cover(self, missing: Sequence[frozenset[str]], nodes: Iterable[Candidate], most: int) -> tuple[str, ...] | None:
        """At most so many nodes that have a worker for each of these groups, together; None: there are none.

        Those with the lowest cost; then the fewest; then those that come first in `nodes`.
        """
        whole = (1 << len(missing)) - 1
        by_mask: dict[int, Candidate] = {}
        for node in nodes:
            mask = sum(1 << index for index, group in enumerate(missing) if group <= node.labels)
            if mask and (mask not in by_mask or node.cost < by_mask[mask].cost):
                by_mask[mask] = node
        found: tuple[int, tuple[str, ...]] | None = (0, ()) if not whole else None
        reached: dict[int, tuple[int, tuple[str, ...]]] = {0: (0, ())}
        for _ in range(min(most, len(missing))):
            further: dict[int, tuple[int, tuple[str, ...]]] = {}
            for before, (cost, taken) in reached.items():
                for mask, node in by_mask.items():
                    after, total = before | mask, cost + node.cost
                    if after != before and (after not in further or total < further[after][0]):
                        further[after] = total, (*taken, node.on)
            reached = further
            if whole in reached and (found is None or reached[whole][0] < found[0]):
                found = reached[whole]
        return None if found is None else found[1]

    def why(self, nodes: Iterable[Candidate], has_slot: Collection[str], most: int, ask: str) -> str:
        """Why at most so many nodes of `has_slot` are no cover, and what to do, for people. `nodes`: all that may be.

        `ask`: what to ask for if they are too few.
        """
        there = list(nodes)
        for group in self.groups:
            what = f"{self._components(group)} {'is' if self._count(group) == 1 else 'are'} pinned to {_text(group)}"
            options = " ".join(f"--label {label}" for label in sorted(group))
            fit = [node.on for node in there if group <= node.labels]
            if not fit:
                return f"{what}, and no node that it may have has that: start one (aiostorm supervisor {options})"
            if not set(fit) & set(has_slot):
                return (
                    f"{what}, and no slot is free on {', '.join(fit[:3])}{', …' if len(fit) > 3 else ''}: start "
                    f"another node that has that (aiostorm supervisor {options}), or kill a topology"
                )
        return f"its pins need workers on more nodes than the {most} that it asks for: {ask}"

    def _components(self, group: frozenset[str]) -> str:
        names = sorted(name for name, labels in self._pins.items() if labels == group)
        return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")

    def _count(self, group: frozenset[str]) -> int:
        return sum(labels == group for labels in self._pins.values())


def merged_pins(before: Mapping[str, frozenset[str]], given: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The pins of before with those that are given; one without labels ends. ValueError if they cannot be."""
    found = {name: labels for name, labels in {**before, **given}.items() if labels}
    check_pins(found)
    return found


def check_pins(pins: Mapping[str, frozenset[str]]) -> None:
    """ValueError for pins that a topology cannot have."""
    if len(pins) > MAX_PINS:
        raise ValueError(f"a topology has at most {MAX_PINS:,} pinned components, not {len(pins):,}")
    for name, labels in pins.items():
        for label in labels:
            if not (label and label.isprintable() and len(label) <= MAX_LABEL_CHARS):
                raise ValueError(f"{name} is pinned to {label!r:.150}: a label has 1 to 100 printable characters")
    sets = {labels for labels in pins.values() if labels}
    if len(sets) > MAX_PINNED_LABELS:
        raise ValueError(
            f"the pins of a topology have at most {MAX_PINNED_LABELS} different sets of labels, not {len(sets)}: give "
            "nodes that serve several components one label"
        )


def _text(labels: frozenset[str]) -> str:
    names = sorted(labels)
    return f"nodes with the label{'' if len(names) == 1 else 's'} {', '.join(names)}"
