"""Messages of ackers between workers: whatever their size, they go in parts that a link carries."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.acker import ACKER_MESSAGES, Acks, Init, Verdict, VerdictKind, Verdicts
from aiostorm.topology import Failure
from aiostorm.transport import ProtocolError, pack_numbers, unpack_value
from aiostorm.transport.link.sequence import MAX_PAYLOAD_BYTES

LONG = Failure("failed", "bolt", 7, "€" * 2000)
SHORT = Failure("failed", "bolt", 7, "ValueError: no")


def sent(message: Any, most_parts: int) -> list[Any]:
    """The parts, as they come."""
    parts = ACKER_MESSAGES.split(message)
    assert 1 <= len(parts) <= most_parts
    packed = [ACKER_MESSAGES.pack(3, part) for part in parts]
    assert all(len(part) < MAX_PAYLOAD_BYTES - 100 for part in packed)
    return [ACKER_MESSAGES.unpack(unpack_value(part))[1] for part in packed]


@pytest.mark.parametrize(
    ("roots", "failures", "failure", "most"),
    [(1, 1, LONG, 1), (300, 64, LONG, 76), (10_000, 1, LONG, 40), (30_000, 1, SHORT, 120), (3, 2000, LONG, 3)],
)
def test_failures_are_sent_with_the_edges_of_their_root(roots: int, failures: int, failure: Failure, most: int) -> None:
    items = [(root, root * 7) for root in range(1, roots + 1)]
    failed = [(root, index, failure) for root in range(1, min(roots, 10_000) + 1) for index in range(failures)]
    parts = sent(Acks(items, failed, [1, 2]), most + 1)
    pairs = [pair for part in parts for pair in part.items]
    assert sorted(pairs) == items
    assert [(root, index) for part in parts for root, index, _ in part.failures] == [f[:2] for f in failed]
    for part in parts:
        assert {root for root, _, _ in part.failures} <= {root for root, _ in part.items}
    assert [root for part in parts for root in part.resets] == [1, 2]


def test_few_failures_keep_their_texts() -> None:
    [part] = sent(Acks([(1, 2)], [(1, index, LONG) for index in range(64)]), 1)
    assert {what for _, _, what in part.failures} == {LONG}
    [part] = sent(Verdicts([Verdict(VerdictKind.FAIL, 1, 0, LONG)]), 1)
    assert part.verdicts[0].failure == LONG


def test_a_great_many_trees_go_in_parts() -> None:
    items = [(root, root) for root in range(1, 40_000)]
    assert [pair for part in sent(Init(5, items), 3) for pair in part.items] == items
    expired = [Verdict(VerdictKind.EXPIRED, root) for root in range(1, 60_000)]
    parts = sent(Verdicts(expired), 4)
    assert [verdict.root for part in parts for verdict in part.verdicts] == list(range(1, 60_000))


def test_verdicts_with_failures_go_in_parts_in_their_order() -> None:
    failed = [Verdict(VerdictKind.FAIL, root, 0, LONG) for root in range(1, 2000)]
    acked = [Verdict(VerdictKind.ACK, root, failure=dict.fromkeys(range(root), LONG)) for root in range(1, 400, 40)]
    parts = sent(Verdicts([*failed, *acked]), 20)
    found = [verdict for part in parts for verdict in part.verdicts]
    assert [verdict.root for verdict in found] == [verdict.root for verdict in [*failed, *acked]]
    assert [len(verdict.failure) for verdict in found[len(failed) :]] == list(range(1, 400, 40))


def test_detached_rows_are_sent_with_the_edges_of_their_root() -> None:
    items = [(root, root * 7) for root in range(1, 5_000)]
    detached = [(root, index, root + 10_000, 3) for root in range(1, 2_000) for index in range(10)]
    parts = sent(Acks(items, None, [1], detached), 6)
    assert sorted(pair for part in parts for pair in part.items) == items
    assert [row for part in parts for row in part.detached] == detached
    for part in parts:
        assert {row[0] for row in part.detached} <= {root for root, _ in part.items}


def test_verdicts_on_detached_rows() -> None:
    verdicts = [
        Verdict(VerdictKind.ACK, 5, failure={1: SHORT}, left=(0, 70_000)),
        Verdict(VerdictKind.ACK, 5, 70_000),
        Verdict(VerdictKind.RESET, 5, 0),
    ]
    [part] = sent(Verdicts(verdicts), 1)
    assert list(map(repr, part.verdicts)) == list(map(repr, verdicts))
    assert part.verdicts[0].failure == {1: SHORT}
    many = [Verdict(VerdictKind.ACK, root, left=tuple(range(10_000))) for root in range(1, 50)]
    assert [v.left for part in sent(Verdicts(many), 49) for v in part.verdicts] == [v.left for v in many]


@pytest.mark.parametrize("row", [(0, 1, 2, 3), (1, 2**31, 2, 3), (1, 1, 0, 3), (1, 1, 2, 0), (1, 1, 1, 3), (1, 1, 2)])
def test_an_invalid_detached_row_is_refused(row: tuple[int, ...]) -> None:
    item = (3, 2, b"", (), (), pack_numbers(row))
    with pytest.raises(ProtocolError, match="detached row"):
        ACKER_MESSAGES.unpack(item)
