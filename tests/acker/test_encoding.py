"""Messages of ackers between workers: whatever their size, they go in parts that a link carries."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.acker import ACKER_MESSAGES, Acks, Init, Verdict, VerdictKind, Verdicts
from aiostorm.topology import Failure
from aiostorm.transport import ProtocolError, pack_numbers, pack_pairs, unpack_value
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


# -- how it is split ---------------------------------------------------------------------------------------------------


def pairs_of(count: int) -> list[tuple[int, int]]:
    return [(root, root) for root in range(1, count + 1)]


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (16_384, [16_384]), (16_385, [16_384, 1]), (40_000, [16_384, 16_384, 7_232])]
)
def test_a_part_is_about_16384_roots_at_most(count: int, sizes: list[int]) -> None:
    pairs = pairs_of(count)
    for message in (Init(5, pairs), Acks(pairs)):
        parts = ACKER_MESSAGES.split(message)
        assert [len(part.items) for part in parts] == sizes
        assert [pair for part in parts for pair in part.items] == pairs
    expired = [Verdict(VerdictKind.EXPIRED, root) for root, _ in pairs]
    assert [len(part.verdicts) for part in ACKER_MESSAGES.split(Verdicts(expired))] == sizes
    resets = [root for root, _ in pairs]
    parts = [part for part in ACKER_MESSAGES.split(Acks([], [], resets)) if part.resets]
    assert [len(part.resets) for part in parts] == [size for size in sizes if size]
    assert [root for part in parts for root in part.resets] == resets


@pytest.mark.parametrize(("count", "sizes"), [(5_461, [5_461]), (5_462, [5_461, 1])])
def test_a_detached_row_counts_as_two_roots(count: int, sizes: list[int]) -> None:
    detached = [(root, 0, root + 100_000, 3) for root in range(1, count + 1)]
    parts = ACKER_MESSAGES.split(Acks(pairs_of(count), None, None, detached))
    assert [len(part.items) for part in parts] == sizes
    assert [len(part.detached) for part in parts] == sizes


def test_no_part_is_empty() -> None:
    detached = [(1, index, index + 100_000, 3) for index in range(8_192)]
    [part] = ACKER_MESSAGES.split(Acks([(1, 2)], None, None, detached))
    assert (part.items, part.detached) == ([(1, 2)], detached)


def test_the_text_of_an_error_may_be_no_unicode() -> None:
    odd = Failure("failed", "bolt", 7, "ValueError: a file named \udc80")
    [part] = sent(Acks([(1, 2)], [(1, 0, odd)]), 1)
    assert part.failures == [(1, 0, odd)]
    [part] = sent(Verdicts([Verdict(VerdictKind.RESET, 1), Verdict(VerdictKind.FAIL, 1, 0, odd)]), 1)
    assert part.verdicts[1].failure == odd
    [part] = sent(Verdicts([Verdict(VerdictKind.ACK, 1, failure={0: odd})]), 1)
    assert part.verdicts[0].failure == {0: odd}


def test_detached_rows_and_failures_of_roots_without_edges_are_sent_too() -> None:
    detached = [(root, 0, root + 100_000, 3) for root in range(1, 9_001)]
    parts = sent(Acks([], None, None, detached), 2)
    assert [row for part in parts for row in part.detached] == detached
    failed = [(root, 0, SHORT) for root in range(1, 301)]
    parts = sent(Acks([], failed), 2)
    assert [len(part.failures) for part in parts] == [256, 44]
    assert [failure for part in parts for failure in part.failures] == failed


@pytest.mark.parametrize(
    ("failures", "texts"),
    [(64, 2000), (65, 512), (256, 512), (257, 510), (1000, 131), (3276, 40), (4000, 40)],
)
def test_texts_of_many_failures_of_a_root_are_cut_to_a_common_length(failures: int, texts: int) -> None:
    """All of one root go in one part, and their texts together are bounded."""
    [part] = sent(Acks([(1, 2)], [(1, index, LONG) for index in range(failures)]), 1)
    assert {len(what.error) for _, _, what in part.failures} == {texts}
    acked = Verdict(VerdictKind.ACK, 1, failure=dict.fromkeys(range(failures), LONG))
    [part] = sent(Verdicts([acked]), 1)
    assert {len(what.error) for what in part.verdicts[0].failure.values()} == {texts}


def test_of_the_failures_of_a_message_the_first_is_sent() -> None:
    """A task that held one row of a root has failed many others of it: they go in one part, however many they are."""
    failed = [(1, row % 256, Failure("failed", "bolt", 7, f"row {row}")) for row in range(50_000)]
    [part] = sent(Acks([(1, 2)], failed), 1)
    assert part.failures == failed[:256]


def test_a_text_that_fits_is_not_cut() -> None:
    fits, long = Failure("failed", "bolt", 7, "x" * 512), Failure("failed", "bolt", 7, "x" * 513)
    unknown = Failure("timeout")
    given = [(1, 0, fits), (1, 1, long), (1, 2, unknown), *((1, index, SHORT) for index in range(3, 70))]
    [part] = sent(Acks([(1, 2)], given), 1)
    found = [what for _, _, what in part.failures]
    assert found[0] == fits
    assert found[1] == Failure("failed", "bolt", 7, "x" * 510 + " …")
    assert found[2:] == [what for _, _, what in given[2:]]


def test_failures_of_more_than_a_part_begin_another_one() -> None:
    failed = [(root, index, SHORT) for root in (1, 2, 3) for index in range(128)]
    parts = sent(Acks([(1, 7), (2, 7), (3, 7)], failed), 2)
    assert [[root for root, _ in part.items] for part in parts] == [[1, 2], [3]]
    parts = sent(Acks([(1, 7), (2, 7)], [*failed[:128], *((2, index, SHORT) for index in range(129))]), 2)
    assert [[root for root, _ in part.items] for part in parts] == [[1], [2]]


@pytest.mark.parametrize(("count", "sizes"), [(64, [64]), (65, [65]), (256, [256]), (257, [256, 1])])
def test_verdicts_with_failures_go_256_at_a_time(count: int, sizes: list[int]) -> None:
    failed = [Verdict(VerdictKind.FAIL, root, 0, SHORT) for root in range(1, count + 1)]
    assert [len(part.verdicts) for part in sent(Verdicts(failed), 2)] == sizes
    texts = {
        len(v.failure.error)
        for p in sent(Verdicts([Verdict(VerdictKind.FAIL, n, 0, LONG) for n in range(1, count + 1)]), 2)
        for v in p.verdicts
    }
    assert texts == {2000 if count == 64 else 512}


@pytest.mark.parametrize(("left", "sizes"), [(16_384, [4]), (16_385, [4]), (16_388, [3, 1]), (65_536, [1, 1, 1, 1])])
def test_four_messages_that_are_left_count_as_a_root(left: int, sizes: list[int]) -> None:
    verdicts = [Verdict(VerdictKind.ACK, root, left=(0,) * (left - 4)) for root in range(1, 5)]
    assert [len(part.verdicts) for part in ACKER_MESSAGES.split(Verdicts(verdicts))] == sizes


# -- what comes --------------------------------------------------------------------------------------------------------


PAIR = pack_pairs([(1, 0)])
WHAT = ("failed", "bolt", 7, "no")
TIMEOUT = ("timeout", None, None, None)
GOOD = [
    (3, 1, 5, PAIR),
    (3, 2, PAIR, (), (), b""),
    (3, 2, PAIR, ((1, -1, WHAT), (2**64 - 1, 2**31 - 1, WHAT)), (1, 2**64 - 1), pack_numbers((1, 2**31 - 1, 2, 3))),
    (3, 2, PAIR, ((1, 0, TIMEOUT),), (), b""),
    (3, 3, ()),
    (3, 3, ((0, 1, -1, None, b""), (0, 1, -1, ((0, TIMEOUT), (1, WHAT)), pack_numbers((0, 5))), (0, 1, 0, None, b""))),
    (3, 3, ((1, 1, 0, WHAT, b""), (2, 1, -1, None, b""), (3, 2**64 - 1, 2**31 - 1, None, b""))),
    (3, 7, 5),
]
MALFORMED = [
    (3, 1, True, PAIR),
    (3, 1, 5, pack_pairs([(0, 1)])),
    (3, 1, 5, PAIR[:-1]),
    (3, 1, 5, PAIR + bytes(8)),
    (3, 1, 5, None),
    (3, 1, None, PAIR),
    (3, 1, 5),
    (True, 1, 5, PAIR),
    (3, 2, pack_pairs([(1, 0), (0, 1)]), (), (), b""),
    (3, 2, PAIR, None, (), b""),
    (3, 2, PAIR, (), None, b""),
    (3, 2, PAIR, (), (), None),
    *((3, 2, PAIR, (), (root,), b"") for root in (0, -1, 2**64, True, None, 1.0)),
    *((3, 2, PAIR, ((root, 0, WHAT),), (), b"") for root in (0, -1, 2**64, True, None)),
    *((3, 2, PAIR, ((1, index, WHAT),), (), b"") for index in (-2, 2**31, True, None)),
    *((3, 2, PAIR, (failed,), (), b"") for failed in ((1, 0), (1, 0, WHAT, None), 5)),
    *(
        (3, 2, PAIR, ((1, 0, what),), (), b"")
        for what in (
            None,
            ("other", "bolt", 7, "no"),
            (None, "bolt", 7, "no"),
            ("failed", 5, 7, "no"),
            ("failed", "bolt", "7", "no"),
            ("failed", "bolt", True, "no"),
            ("failed", "bolt", 7, b"no"),
            ("failed", "bolt", 7),
            5,
        )
    ),
    (3, 3, None),
    *(
        (3, 3, (verdict,))
        for verdict in (
            (4, 1, 0, None, b""),
            (-1, 1, 0, None, b""),
            (True, 1, 0, None, b""),
            (False, 1, -1, None, b""),
            (None, 1, 0, None, b""),
            (0, 0, -1, None, b""),
            (0, 1, -2, None, b""),
            (0, 0, 0, None, b""),
            (0, 1, 2**31, None, b""),
            (0, 1, 0, WHAT, b""),
            (0, 1, 0, None, pack_numbers((0,))),
            (0, 1, -1, 5, b""),
            (0, 1, -1, ((0,),), b""),
            (0, 1, -1, ((-2, WHAT),), b""),
            (0, 1, -1, ((0, 5),), b""),
            (0, 1, -1, ((0, None),), b""),
            (0, 1, -1, None, bytes(7)),
            (0, 1, -1, None, pack_numbers((2**31,))),
            (0, 1, -1, None, None),
            (1, 0, 0, WHAT, b""),
            (1, 1, -2, WHAT, b""),
            (1, 1, 0, 5, b""),
            (1, 1, 0, None, b""),
            (1, 1, 0, WHAT, pack_numbers((0,))),
            (1, 1, 0, WHAT),
            *((kind, 1, 0, WHAT, b"") for kind in (2, 3)),
            *((kind, 0, 0, None, b"") for kind in (2, 3)),
            *((kind, 1, -2, None, b"") for kind in (2, 3)),
            *((kind, 1, 0, None, pack_numbers((0,))) for kind in (2, 3)),
            5,
        )
    ),
    (3, 7, None),
    (3, 7, True),
    (3, 7),
    (3, 4),
    (3,),
    None,
]


@pytest.mark.parametrize("item", GOOD, ids=repr)
def test_a_received_message_is_what_was_sent(item: Any) -> None:
    task, message = ACKER_MESSAGES.unpack(item)
    assert unpack_value(ACKER_MESSAGES.pack(task, message)) == item


@pytest.mark.parametrize("item", MALFORMED, ids=repr)
def test_a_malformed_message_is_refused(item: Any) -> None:
    with pytest.raises(ProtocolError):
        ACKER_MESSAGES.unpack(item)


def test_what_is_no_message_of_an_acker_is_not_sent() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        ACKER_MESSAGES.pack(1, "text")
